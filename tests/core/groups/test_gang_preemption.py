"""Preemption for a whole gang: the fewest victims, other gangs kept whole, freed room kept for the gang."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.core.groups.group_kit import (
    GATES,
    bound,
    cluster_with,
    condition,
    evict_slowly,
    gpu_node,
    gpu_nodes,
    gpu_pod,
    members,
    nominated,
    pod_group,
)

WHOLE = (*GATES, "WorkloadAwarePreemption")
TOPOLOGY = (*WHOLE, "TopologyAwareWorkloadScheduling")
IN_ONE_RACK = {"topology": [{"key": "rack"}]}

# Anti-affinity to a label that no pod has: a plan is made for each trial, instead of a count.
PLANNED = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": "rack"}
            ]
        }
    }
}
both_ways = pytest.mark.parametrize("spec", [{}, PLANNED], ids=["counted", "planned"])


def high_gang(count: int, spec: dict[str, Any] | None = None, **group: Any) -> list[dict[str, Any]]:
    pods = members("high", count, priority=10, **(spec or {}))
    return [pod_group("high", count, priority=10, **group), *pods]


def low_pods(cluster: SchedulerCluster, count: int) -> None:
    cluster.apply(*(gpu_pod(f"low-{i}", nodeName=f"n{i}") for i in range(count)))
    cluster.schedule()


@both_ways
def test_freed_room_is_kept_until_the_last_victim_has_left(spec: dict[str, Any]) -> None:
    cluster = cluster_with(*gpu_nodes(8), gates=WHOLE)
    low_pods(cluster, 8)
    evicted = evict_slowly(cluster)
    cluster.apply(*high_gang(4, spec))
    cluster.schedule()
    assert len(evicted) == 4
    assert sorted(nominated(cluster, "high").values()) == sorted(
        name.replace("low-", "n") for name in evicted
    )
    assert condition(cluster, "high") == ("False", "Unschedulable", "pod group is unschedulable")
    for victim in evicted[:-1]:
        cluster.delete(f"pod/{victim}")
        cluster.apply(gpu_pod(f"thief-after-{victim}", priority=10, preemptionPolicy="Never"))
        cluster.schedule()
        assert bound(cluster, "high") == bound(cluster, "thief") == {}
    cluster.delete(f"pod/{evicted[-1]}")
    cluster.schedule()
    assert sorted(bound(cluster, "high").values()) == sorted(name.replace("low-", "n") for name in evicted)
    assert bound(cluster, "thief") == {}
    assert len(evicted) == 4


@both_ways
def test_no_pod_is_evicted_for_a_gang_that_does_not_fit_even_then(spec: dict[str, Any]) -> None:
    cluster = cluster_with(*gpu_nodes(8), gates=WHOLE)
    low_pods(cluster, 8)
    cluster.apply(*high_gang(9, spec))
    cluster.schedule()
    assert len(bound(cluster, "low")) == 8
    text = "pod group is unschedulable, pod group is unschedulable"
    assert condition(cluster, "high") == ("False", "Unschedulable", text)


@both_ways
def test_a_free_node_and_a_victims_node_count_together(spec: dict[str, Any]) -> None:
    cluster = cluster_with(*gpu_nodes(2), gates=WHOLE)
    low_pods(cluster, 1)
    cluster.apply(*high_gang(2, spec))
    cluster.schedule()
    assert bound(cluster) == {"high-0": "n0", "high-1": "n1"} or bound(cluster) == {
        "high-0": "n1",
        "high-1": "n0",
    }


def six_of_four(cluster: SchedulerCluster) -> None:
    """A gang of 6 that needs 4, on 6 nodes."""
    pods = members("x", 6)
    for i, pod in enumerate(pods):
        pod["spec"]["nodeName"] = f"n{i}"
    cluster.apply(pod_group("x", 4), *pods)
    cluster.schedule()


@both_ways
def test_surplus_members_of_a_gang_leave_and_the_gang_runs_on(spec: dict[str, Any]) -> None:
    cluster = cluster_with(*gpu_nodes(6), gates=WHOLE)
    six_of_four(cluster)
    cluster.apply(*high_gang(2, spec))
    cluster.schedule()
    assert len(bound(cluster, "x")) == 4
    assert len(bound(cluster, "high")) == 2


@both_ways
def test_a_gang_leaves_as_a_whole_or_not_at_all(spec: dict[str, Any]) -> None:
    cluster = cluster_with(*gpu_nodes(6), gates=WHOLE)
    six_of_four(cluster)
    cluster.apply(*high_gang(3, spec))
    cluster.schedule()
    assert bound(cluster, "x") == {}
    assert len(bound(cluster, "high")) == 3

    cluster = cluster_with(*gpu_nodes(9), gates=WHOLE)
    six_of_four(cluster)
    cluster.apply(*(gpu_pod(f"low-{i}", nodeName=f"n{6 + i}", priority=5) for i in range(3)))
    cluster.schedule()
    cluster.apply(*high_gang(3, spec))
    cluster.schedule()
    assert len(bound(cluster, "x")) + len(bound(cluster, "low")) == 6
    assert len(bound(cluster, "x")) >= 4, "three others leave rather than six"


@pytest.mark.parametrize("args", [{"preserveGangs": False}, {"groupPreemption": "KubeScheduler"}])
def test_gangs_are_broken_where_that_is_configured(args: dict[str, Any]) -> None:
    cluster = cluster_with(*gpu_nodes(6), gates=WHOLE, gang_args=args)
    six_of_four(cluster)
    cluster.apply(*high_gang(3))
    cluster.schedule()
    assert len(bound(cluster, "x")) == 3


@both_ways
def test_members_do_not_leave_for_each_other(spec: dict[str, Any]) -> None:
    """Their pods may have a lower priority than the group itself, such as none."""
    cluster = cluster_with(*gpu_nodes(4), gates=WHOLE)
    cluster.apply(pod_group("high", 2, priority=10), *members("high", 4, **spec))
    cluster.schedule()
    assert len(bound(cluster)) == 4
    cluster.apply(*members("high", 1, start=4, **spec))
    cluster.advance(600)
    assert sorted(bound(cluster)) == [f"high-{i}" for i in range(4)]


@both_ways
@pytest.mark.parametrize("min_count", [None, 2, 4])
def test_the_priority_of_a_group_protects_its_members(spec: dict[str, Any], min_count: int | None) -> None:
    """Otherwise two groups whose pods have none would evict each other without end."""
    cluster = cluster_with(*gpu_nodes(4), gates=WHOLE)
    cluster.apply(pod_group("x", min_count, priority=20), *members("x", 4))
    cluster.schedule()
    cluster.apply(*high_gang(2, spec))
    cluster.advance(600)
    assert len(bound(cluster, "x")) == 4


@both_ways
def test_one_victim_leaves_where_one_suffices(spec: dict[str, Any]) -> None:
    cluster = cluster_with(gpu_node("n0", 10), gpu_node("n1", 8), gates=WHOLE)
    cluster.apply(*(gpu_pod(f"small-{i}", gpus=1, nodeName="n0") for i in range(10)))
    cluster.apply(gpu_pod("large", priority=5, nodeName="n1"))
    cluster.schedule()
    cluster.apply(*high_gang(1, spec))
    cluster.schedule()
    assert "large" not in bound(cluster)
    assert len(bound(cluster, "small")) == 10


@both_ways
def test_one_member_leaves_a_gang_of_ten_where_one_suffices(spec: dict[str, Any]) -> None:
    cluster = cluster_with(*gpu_nodes(10), gates=WHOLE)
    pods = members("x", 10)
    for i, pod in enumerate(pods):
        pod["spec"]["nodeName"] = f"n{i}"
    cluster.apply(pod_group("x", 5), *pods)
    cluster.schedule()
    cluster.apply(*high_gang(1, spec))
    cluster.schedule()
    assert (len(bound(cluster, "x")), len(bound(cluster, "high"))) == (9, 1)


@both_ways
def test_two_preemptors_share_no_victim_and_take_no_more_on_retries(spec: dict[str, Any]) -> None:
    cluster = cluster_with(*gpu_nodes(5), gates=WHOLE)
    low_pods(cluster, 5)
    evicted = evict_slowly(cluster)
    for name in ("high-a", "high-b"):
        cluster.apply(pod_group(name, 2, priority=10), *members(name, 2, priority=10, **spec))
    cluster.schedule()
    assert len(evicted) == len(set(evicted)) == 4
    kept = nominated(cluster, "high")
    assert len(set(kept.values())) == 4
    for _ in range(5):
        cluster.apply(gpu_node("small", 1))
        cluster.delete("node/small")
        cluster.advance(60)
    assert len(evicted) == 4
    assert nominated(cluster, "high") == kept
    for victim in evicted:
        cluster.delete(f"pod/{victim}")
        cluster.schedule()
    assert bound(cluster, "high") == kept
    assert len(evicted) == 4


@both_ways
def test_a_gang_for_one_rack_preempts_in_the_rack_with_fewest_victims(spec: dict[str, Any]) -> None:
    nodes = [gpu_node(f"{rack}-{i}", rack=rack) for rack in ("r1", "r2", "r3") for i in range(4)]
    cluster = cluster_with(*nodes, gpu_node("no-rack"), gates=TOPOLOGY)
    occupied = ["r1-2", *(f"r2-{i}" for i in range(3)), *(f"r3-{i}" for i in range(4))]
    cluster.apply(*(gpu_pod(f"low-{node}", nodeName=node) for node in occupied))
    cluster.schedule()
    cluster.apply(*high_gang(4, spec, schedulingConstraints=IN_ONE_RACK))
    cluster.schedule()
    assert {node.partition("-")[0] for node in bound(cluster, "high").values()} == {"r1"}
    assert sorted(bound(cluster, "low")) == sorted(f"low-{node}" for node in occupied if node != "r1-2")


def budget(name: str, allowed: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}},
        "status": {"disruptionsAllowed": allowed},
    }


@both_ways
def test_budgets_are_violated_only_without_another_choice(
    spec: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_with(*gpu_nodes(4), gates=WHOLE)
    pods = [gpu_pod(f"low-{i}", nodeName=f"n{i}", priority=i // 3) for i in range(4)]
    for pod in pods[:3]:
        pod["metadata"]["labels"] = {"app": "db"}
    cluster.apply(budget("db", 1), *pods)
    cluster.schedule()
    cluster.apply(*high_gang(2, spec))
    cluster.schedule()
    assert len(bound(cluster, "high")) == 2
    assert "low-3" not in bound(cluster), "one of the budget's pods, and the one without a budget"
    assert not caplog.records

    cluster.apply(
        budget("db", 0), pod_group("more", 1, priority=10), *members("more", 1, priority=10, **spec)
    )
    with caplog.at_level(logging.WARNING):
        cluster.schedule()
    assert len(bound(cluster, "more")) == 1
    text = "pod group default/more: preempting 1 pods against their PodDisruptionBudgets: default/low-"
    assert [record.getMessage().startswith(text) for record in caplog.records] == [True]


def test_a_gang_without_lower_pods_says_so() -> None:
    cluster = cluster_with(*gpu_nodes(2), gates=WHOLE)
    cluster.apply(*high_gang(3))
    cluster.schedule()
    text = "pod group is unschedulable, No preemption victims found for incoming preemptor"
    assert condition(cluster, "high") == ("False", "Unschedulable", text)
