"""Pod requests and node allocatable."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import resources
from mooring.api.errors import MalformedObject
from mooring.api.meta import Condition, ObjectMeta, ResourceList
from mooring.api.objects import (
    Container,
    ContainerPort,
    ContainerStatus,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from mooring.api.resources import (
    allocatable,
    host_ports,
    is_extended,
    is_scalar,
    nonzero_requests,
    pod_requests,
)
from tests.calls import count_lines

MIB = 1024 * 1024


def container(requests: ResourceList | None = None, *, name: str = "c", always: bool = False) -> Container:
    own = ResourceRequirements(requests=requests or {})
    return Container(name=name, resources=own, restart_policy="Always" if always else None)


def sidecar(cpu: str) -> Container:
    return container({"cpu": cpu}, name="sidecar", always=True)


def pod(
    *containers: Container,
    init: tuple[Container, ...] = (),
    overhead: ResourceList | None = None,
    level: ResourceList | None = None,
    status: PodStatus | None = None,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=PodSpec(
            containers=list(containers),
            init_containers=list(init),
            overhead=overhead or {},
            resources=None if level is None else ResourceRequirements(requests=level),
        ),
        status=status or PodStatus(),
    )


def incoming(pod: Pod) -> dict[str, int]:
    return pod_requests(pod, use_status=False, pod_level=True, non_missing=False)


def existing(pod: Pod) -> dict[str, int]:
    return pod_requests(pod, use_status=True, pod_level=True, non_missing=False)


def scored(pod: Pod) -> dict[str, int]:
    return pod_requests(pod, use_status=False, pod_level=False, non_missing=True)


@pytest.mark.parametrize(
    ("init", "cpu"),
    [
        ((sidecar("1"), container({"cpu": 3})), 4000),  # the init container runs beside the sidecar
        ((container({"cpu": 3}), sidecar("1")), 3000),  # but not beside one that starts after it
        ((sidecar("2"), sidecar("2")), 6000),
        ((container({"cpu": "5"}), container({"cpu": "4"})), 5000),
        ((), 2000),
    ],
)
def test_init_containers_and_sidecars(init: tuple[Container, ...], cpu: int) -> None:
    assert incoming(pod(container({"cpu": "2"}), init=init)) == {"cpu": cpu}


def test_the_work_is_linear_in_the_sidecars() -> None:
    def lines(count: int) -> int:
        named = [container({f"example.com/r{i}": "1"}, name=f"c{i}", always=True) for i in range(count)]
        made = pod(container(), init=tuple(named))
        return count_lines(lambda: incoming(made), resources.__file__)

    assert lines(200) < 2.3 * lines(100)


def test_sums_are_exact_before_they_are_rounded() -> None:
    half = container({"cpu": "500u", "memory": "0.5"})
    assert incoming(pod(half, half)) == {"cpu": 1, "memory": 1}
    assert incoming(pod(half)) == {"cpu": 1, "memory": 1}


def test_pod_level_requests_replace_what_they_name() -> None:
    level: ResourceList = {"cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": "9"}
    asked: ResourceList = {"cpu": "3", "memory": "1Mi", "example.com/gpu": 1}
    wanted = pod(container(asked), level=level, overhead={"cpu": "250m"})
    expected = {"cpu": 1250, "memory": MIB, "example.com/gpu": 1, "hugepages-2Mi": 4 * MIB}
    assert incoming(wanted) == expected
    assert scored(wanted)["cpu"] == 3250


def test_scoring_defaults_are_per_container_and_keep_explicit_zeros() -> None:
    silent, zero = container(), container({"cpu": 0, "memory": "0"})
    assert scored(pod(silent, zero)) == {"cpu": 100, "memory": 200 * MIB}
    assert scored(pod(zero, init=(silent,))) == {"cpu": 100, "memory": 200 * MIB}
    assert incoming(pod(silent)) == {}
    assert incoming(pod(zero)) == {"cpu": 0, "memory": 0}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod(container()), (100, 200 * MIB)),
        (pod(container({"cpu": "0"})), (0, 200 * MIB)),
        (pod(container(), container({"cpu": "1"})), (1100, 400 * MIB)),
        # With pod-level requests, only what the whole list lacks gets the default, per container.
        (pod(container(), container(), level={"cpu": "2"}), (2000, 400 * MIB)),
        (pod(container({"memory": "1Mi"}), container(), level={"cpu": "2"}), (2000, MIB)),
    ],
)
def test_nonzero_requests(wanted: Pod, expected: tuple[int, int]) -> None:
    assert nonzero_requests(wanted) == expected


def resized(spec: str, actual: str, allocated: str, *, infeasible: bool = False) -> Pod:
    condition = Condition(type="PodResizePending", status="True", reason="Infeasible")
    status = ContainerStatus(
        name="c",
        allocated_resources={"cpu": allocated},
        resources=ResourceRequirements(requests={"cpu": actual}),
    )
    return pod(
        container({"cpu": spec}),
        status=PodStatus(container_statuses=[status], conditions=[condition] if infeasible else []),
    )


@pytest.mark.parametrize(
    ("wanted", "cpu"),
    [
        (resized("1", "2", "3"), 3000),
        (resized("4", "2", "3"), 4000),
        (resized("1", "5", "3"), 5000),
        (resized("4", "2", "3", infeasible=True), 3000),
    ],
)
def test_a_resized_pod_counts_the_most_it_may_use(wanted: Pod, cpu: int) -> None:
    assert existing(wanted) == {"cpu": cpu}
    assert nonzero_requests(wanted)[0] == cpu
    assert incoming(wanted) == {"cpu": int(str(wanted.spec.containers[0].resources.requests["cpu"])) * 1000}


def test_a_resized_pod_level_counts_the_most_too() -> None:
    status = PodStatus(
        resources=ResourceRequirements(requests={"cpu": "3"}), allocated_resources={"cpu": "2"}
    )
    assert existing(pod(container(), level={"cpu": "1"}, status=status)) == {"cpu": 3000}
    assert incoming(pod(container(), level={"cpu": "1"}, status=status)) == {"cpu": 1000}


def test_a_status_without_resources_does_not_count() -> None:
    status = PodStatus(container_statuses=[ContainerStatus(name="c", allocated_resources={"cpu": "9"})])
    assert existing(pod(container({"cpu": "1"}), status=status)) == {"cpu": 1000}


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (pod(container({"cpu": "12x"})), "spec.containers[0].resources.requests.cpu"),
        (
            pod(container(), container({"a.io/gpu": "12x"})),
            "spec.containers[1].resources.requests[a.io/gpu]",
        ),
        (pod(init=(container({"memory": "12x"}),)), "spec.initContainers[0].resources.requests.memory"),
        (pod(container(), overhead={"cpu": "12x"}), "spec.overhead.cpu"),
        (pod(container(), level={"cpu": "12x"}), "spec.resources.requests.cpu"),
        (resized("1", "12x", "1"), "status.containerStatuses[0].resources.requests.cpu"),
    ],
)  # fmt: skip
def test_a_bad_quantity_is_told_by_field(wanted: Pod, field: str) -> None:
    with pytest.raises(MalformedObject) as caught:
        existing(wanted)
    assert caught.value.field == field
    assert str(caught.value) == (
        f'Pod default/web: {field}: found "12x", expected a quantity such as "100m" or "1Gi"'
    )
    with pytest.raises(MalformedObject):
        nonzero_requests(wanted)


amounts = st.fractions(0, 100, max_denominator=2000).map(lambda f: f"{math.ceil(f * 10**6)}u")
containers = st.builds(container, st.dictionaries(st.sampled_from(["cpu", "memory", "a.io/x"]), amounts))
pods = st.builds(
    lambda main, init: pod(*main, init=tuple(init)),
    st.lists(containers, min_size=1, max_size=4),
    st.lists(containers | amounts.map(sidecar), max_size=4),
)


def exact(container: Container, name: str) -> Fraction:
    return Fraction(int(str(container.resources.requests.get(name, "0u"))[:-1]), 10**6)


@given(pods)
def test_never_below_any_moment_of_the_pods_life(wanted: Pod) -> None:
    found = incoming(wanted)
    for name, unit in (("cpu", 1000), ("memory", 1), ("a.io/x", 1)):
        running = [c for c in wanted.spec.init_containers if c.restart_policy == "Always"]
        moments = [sum((exact(c, name) for c in [*wanted.spec.containers, *running]), Fraction())]
        for index, each in enumerate(wanted.spec.init_containers):
            before = [c for c in wanted.spec.init_containers[:index] if c.restart_policy == "Always"]
            moments.append(sum((exact(c, name) for c in before), exact(each, name)))
        assert found.get(name, 0) == math.ceil(max(moments) * unit)


@given(pods)
def test_defaults_only_add(wanted: Pod) -> None:
    plain, filled = incoming(wanted), scored(wanted)
    assert set(filled) == set(plain) | {"cpu", "memory"}
    assert all(filled[name] >= amount for name, amount in plain.items())
    assert nonzero_requests(wanted) == (filled["cpu"], filled["memory"])


# ---- names, ports, nodes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("cpu", False, False),
        ("ephemeral-storage", False, False),
        ("nvidia.com/gpu", True, True),
        ("requests.nvidia.com/gpu", False, False),
        ("kubernetes.io/batteries", False, True),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-csi-x", False, True),
        ("UPPER.com/gpu", False, False),
        ("foo", False, False),
    ],
)
def test_resource_names(name: str, extended: bool, scalar: bool) -> None:
    assert (is_extended(name), is_scalar(name)) == (extended, scalar)


def test_host_ports_are_those_of_lasting_containers() -> None:
    def with_ports(policy: str | None, *ports: ContainerPort) -> Container:
        return Container(ports=list(ports), restart_policy=policy)

    wanted = pod(
        with_ports(None, ContainerPort(host_port=80), ContainerPort(container_port=9)),
        with_ports(None, ContainerPort(host_port=53, host_ip="10.0.0.1", protocol="UDP")),
        init=(
            with_ports("Always", ContainerPort(host_port=81)),
            with_ports(None, ContainerPort(host_port=82)),
        ),
    )
    assert host_ports(wanted) == (("0.0.0.0", "TCP", 80), ("10.0.0.1", "UDP", 53), ("0.0.0.0", "TCP", 81))
    assert host_ports(pod(container())) == ()


def test_allocatable_never_looks_at_capacity() -> None:
    status = NodeStatus(
        allocatable={"cpu": "3500m", "memory": "1Gi", "pods": "110", "a.io/gpu": 2}, capacity={"cpu": "4"}
    )
    node = Node(metadata=ObjectMeta(name="n1"), status=status)
    assert allocatable(node) == {"cpu": 3500, "memory": 1024 * MIB, "pods": 110, "a.io/gpu": 2}
    assert allocatable(Node(status=NodeStatus(capacity={"cpu": "4"}))) == {}
    with pytest.raises(MalformedObject, match=r"^Node n1: status.allocatable.cpu: found \"x\""):
        allocatable(Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(allocatable={"cpu": "x"})))
