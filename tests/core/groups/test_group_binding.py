"""What happens to a gang between its plan and the last of its bindings."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.framework import CycleState, Plugin, PodInfo, Status, error, wait
from mooring.testing import make_cluster, make_node
from mooring.testing.sandbox_cluster import SandboxCluster
from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.core.groups.group_kit import (
    GATES,
    bound,
    cluster_with,
    condition,
    gang,
    gpu_node,
    gpu_nodes,
    gpu_pod,
    members,
    message,
    pod_group,
)

ERRORS = {
    "500": ApiError(500, "InternalError", "etcdserver: request timed out"),
    "409": ApiError(409, "Conflict", "the object has been modified"),
    "timeout": TimeoutError("no answer"),
}


@pytest.mark.parametrize("times", [1, 2, 10])
@pytest.mark.parametrize("error", ERRORS)
def test_a_binding_request_is_repeated_while_the_member_keeps_its_room(times: int, error: str) -> None:
    cluster = cluster_with(*gpu_nodes(3))
    requests = cluster.fail_bind("train-1", times=times, error=ERRORS[error])
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["train-0", "train-2"]
    cluster.apply(gpu_pod("rival", priority=0))
    cluster.advance(0.05)
    assert "rival" not in bound(cluster)
    cluster.advance(30)
    assert len(bound(cluster, "train")) == 3
    assert "rival" not in bound(cluster)
    pauses = [round(b - a, 6) for a, b in pairwise(requests)]
    assert pauses == [min(0.1 * 2**i, 2.0) for i in range(times)]


def test_a_binding_whose_answer_was_lost_is_not_made_twice() -> None:
    cluster = SandboxCluster([make_node(f"n{i}", cpu="4") for i in range(3)], feature_gates=GATES)
    client: Any = cluster.scheduler.client
    bind, requests = client.bind, list[str]()

    async def lose_first_answer(pod: PodInfo, node_name: str) -> None:
        requests.append(pod.name)
        await bind(pod, node_name)
        if requests.count("train-1") == 1 and pod.name == "train-1":
            raise TimeoutError("no answer")

    client.bind = lose_first_answer
    cluster.gang("train", 3, requests={"cpu": "4"})
    cluster.advance(30)
    assert len({pod.spec.node_name for pod in cluster.pods()}) == 3
    assert sorted(requests) == ["train-0", "train-1", "train-2"]
    assert cluster.scheduler.cluster.assumed_count() == 0
    assert not any(event.reason == "FailedScheduling" for event in cluster.events())
    cluster.close()


def test_a_member_that_lost_its_node_is_placed_before_anything_else() -> None:
    cluster = cluster_with(*gpu_nodes(3))
    cluster.fail_bind("train-1", times=1)
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    free = {f"n{i}" for i in range(3)} - set(bound(cluster).values())
    cluster.delete(f"node/{free.pop()}")
    cluster.apply(gpu_pod("rival", priority=1000, preemptionPolicy="Never"))
    cluster.advance(20)
    assert sorted(bound(cluster)) == ["train-0", "train-2"]
    cluster.apply(gpu_node("new"))
    cluster.advance(20)
    assert bound(cluster)["train-1"] == "new"
    assert "rival" not in bound(cluster)


class Slow(Plugin):
    """Fails pre_bind of pods that are named in `failing`."""

    name = "Slow"
    failing: set[str] = set()
    asked: list[str] = []

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.asked.append(pod.name)
        return error("no volume") if pod.name in self.failing else None


def test_no_member_is_bound_before_the_quorum_passed_pre_bind() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(GATES, True),
        "profiles": [{"plugins": {"preBind": {"enabled": [{"name": "Slow"}]}}}],
    }
    Slow.failing, Slow.asked = {"train-2"}, []
    cluster = make_cluster(config=config, plugins=[Slow])
    assert isinstance(cluster, SchedulerCluster)
    cluster.apply(*gpu_nodes(3), *gang("train", 3))
    cluster.schedule()
    assert Slow.asked == ["train-0", "train-1", "train-2"]
    assert bound(cluster) == {}
    assert cluster.scheduler.cluster.assumed_count() == 0
    assert message(cluster, "train-2") == 'running PreBind plugin "Slow": no volume'
    assert message(cluster, "train-0").startswith("pod group is unschedulable, ")
    Slow.failing = set()
    cluster.advance(10)
    assert len(bound(cluster)) == 3
    assert condition(cluster, "train") == ("True", "Scheduled", "")


def test_a_gang_that_was_bound_in_part_is_completed_first_after_a_restart() -> None:
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(gpu_pod("rival-0", priority=5, preemptionPolicy="Never"), gpu_pod("rival-1"))
    pods = members("train", 8)
    for i, pod in enumerate(pods[:3]):
        pod["spec"]["nodeName"] = f"n{i}"
    cluster.apply(pod_group("train", 8), *reversed(pods))
    cluster.schedule()
    assert len(bound(cluster, "train")) == 8
    assert bound(cluster, "rival") == {}


def test_a_gang_that_runs_in_part_waits_its_turn_where_gangs_mean_nothing() -> None:
    cluster = cluster_with(*gpu_nodes(3), gates=["GenericWorkload"])
    cluster.apply(gpu_pod("rival", priority=5, preemptionPolicy="Never"))
    pods = members("train", 3)
    pods[0]["spec"]["nodeName"] = "n0"
    cluster.apply(pod_group("train", 3), *pods)
    cluster.schedule()
    assert sorted(bound(cluster)) == ["rival", "train-0", "train-1"]
    assert cluster.events("podgroup/train") == []


def test_a_member_that_is_deleted_while_it_is_bound_is_replaced() -> None:
    cluster = cluster_with(*gpu_nodes(3))
    cluster.fail_bind("train-1", times=1)
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    cluster.delete("pod/train-1")
    cluster.advance(20)
    kept = bound(cluster)
    assert sorted(kept) == ["train-0", "train-2"]
    cluster.apply(gpu_pod("train-9", "train"))
    cluster.schedule()
    assert bound(cluster) == {**kept, "train-9": bound(cluster)["train-9"]}


class Hold(Plugin):
    """Has the pod `train-2` wait in permit."""

    name = "Hold"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(60, "not yet") if pod.name == "train-2" else None


def test_a_permit_plugin_holds_its_pod_and_not_the_gang() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(GATES, True),
        "profiles": [{"plugins": {"permit": {"enabled": [{"name": "Hold"}]}}}],
    }
    cluster = make_cluster(config=config, plugins=[Hold])
    assert isinstance(cluster, SchedulerCluster)
    cluster.apply(*gpu_nodes(3), *gang("train", 3, min_count=2))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["train-0", "train-1"]
    (held,) = cluster.scheduler.waiting
    held.allow("Hold")
    cluster.schedule()
    assert len(bound(cluster)) == 3


class TakesTime(Plugin):
    """Takes 30 seconds for pre_bind of `train-2`."""

    name = "TakesTime"

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if pod.name == "train-2":
            await asyncio.sleep(30)
        return None


def test_no_member_is_bound_while_pre_bind_of_another_takes_its_time() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(GATES, True),
        "profiles": [{"plugins": {"preBind": {"enabled": [{"name": "TakesTime"}]}}}],
    }
    cluster = SandboxCluster(3, config=config, plugins=[TakesTime])
    cluster.gang("train", 3, requests={"cpu": "3"})
    cluster.advance(29)
    assert all(not pod.spec.node_name for pod in cluster.pods())
    cluster.advance(3)
    assert all(pod.spec.node_name for pod in cluster.pods())
    cluster.close()
