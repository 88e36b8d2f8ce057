"""/metrics/resources: a line for every pod and resource, from the leader alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mooring.core.scheduler import Scheduler
from mooring.process.aside import at_once
from mooring.process.pod_resources import AT_ONCE, pod_limits, pod_resources, unit
from mooring.serving.messages import Request
from mooring.testing import make_node
from tests.serving.kit import run
from tests.state.objects import pod

Sample = tuple[str, dict[str, str], float]


def container(name: str = "c", **resources: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": resources}


def scheduler(*objects: Any) -> Scheduler:
    made = Scheduler(clock=lambda: 0.0, pick=random.Random(0).randrange)
    for obj in objects:
        made.apply(obj)
    return made


def told(by: Scheduler, *, leads: bool = True) -> str:
    async def main() -> str:
        answer = await pod_resources(by, lambda: leads, at_once)(Request("GET", "/metrics/resources"))
        assert answer.stream is not None
        return b"".join([piece async for piece in answer.stream]).decode()

    return run(main())


def samples(text: str) -> list[Sample]:
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def test_lines() -> None:
    resources = container(
        requests={"cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"},
        limits={"cpu": "1500m", "ephemeral-storage": "1G"},
    )
    text = told(scheduler(make_node("n"), pod("web", on="n", priority=7, containers=[resources])))
    labels = {
        "namespace": "default",
        "pod": "web",
        "node": "n",
        "scheduler": "default-scheduler",
        "priority": "7",
    }
    expected = [
        ("request", "cpu", "cores", 0.25),
        ("request", "hugepages-2Mi", "bytes", 4 * 1024**2),
        ("request", "memory", "bytes", 1024**3),
        ("request", "nvidia.com/gpu", "", 2),
        ("limit", "cpu", "cores", 1.5),
        ("limit", "ephemeral-storage", "bytes", 1e9),
    ]
    assert samples(text) == [
        (f"kube_pod_resource_{kind}", {**labels, "resource": resource, "unit": of}, value)
        for kind, resource, of, value in expected
    ]
    assert 'resource="memory",unit="bytes"} 1.073741824e+09\n' in text
    assert "# TYPE kube_pod_resource_request gauge\n" in text


def test_a_pod_without_node_or_priority() -> None:
    text = told(scheduler(pod("web", containers=[container(requests={"cpu": "1"})])))
    [(_, labels, value)] = samples(text)
    assert (labels["node"], labels["priority"], value) == ("", "", 1)


def test_what_is_zero_or_not_said_is_left_out() -> None:
    by = scheduler(pod("a"), pod("b", containers=[container(requests={"cpu": "0"})]))
    assert samples(told(by)) == []


def test_a_standby_says_nothing() -> None:
    by = scheduler(pod("web", containers=[container(requests={"cpu": "1"})]))
    assert told(by, leads=False) == ""


def test_many_pods_have_one_head() -> None:
    by = scheduler(
        *(pod(f"p-{i}", containers=[container(requests={"cpu": "1"})]) for i in range(2 * AT_ONCE + 1))
    )
    text = told(by)
    assert len(samples(text)) == 2 * AT_ONCE + 1
    assert text.count("# TYPE kube_pod_resource_request ") == 1


def test_names_are_escaped() -> None:
    by = scheduler(pod("web", on="n", schedulerName='a"b\\', containers=[container(requests={"cpu": "1"})]))
    [(_, labels, _)] = samples(told(by))
    assert labels["scheduler"] == 'a"b\\'


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("cpu", "cores"),
        ("memory", "bytes"),
        ("storage", "bytes"),
        ("ephemeral-storage", "bytes"),
        ("hugepages-1Gi", "bytes"),
        ("attachable-volumes-csi-x", "integer"),
        ("example.com/thing", ""),
    ],
)
def test_units(resource: str, expected: str) -> None:
    assert unit(resource) == expected


# ---- limits


def test_limits_add_up_over_containers_and_sidecars() -> None:
    sidecar = {**container("s", limits={"cpu": "1"}), "restartPolicy": "Always"}
    found = pod_limits(
        pod(
            "web",
            containers=[container("a", limits={"cpu": "1"}), container("b", limits={"cpu": "2"})],
            initContainers=[sidecar, container("i", limits={"cpu": "5", "memory": "1"})],
        )
    )
    assert found == {"cpu": 6000, "memory": 1}


def test_limits_of_the_pod_itself_win() -> None:
    found = pod_limits(
        pod(
            "web",
            containers=[container(limits={"cpu": "1", "ephemeral-storage": "5"})],
            resources={"limits": {"cpu": "3", "memory": "7"}, "requests": {"cpu": "2"}},
        )
    )
    assert found == {"cpu": 3000, "memory": 7, "ephemeral-storage": 5}


def test_overhead_counts_only_where_there_is_a_limit() -> None:
    found = pod_limits(
        pod(
            "web",
            containers=[container(limits={"cpu": "1", "memory": "0"}, requests={"cpu": "9"})],
            overhead={"cpu": "250m", "memory": "64", "ephemeral-storage": "1"},
        )
    )
    assert found == {"cpu": 1250, "memory": 0}
