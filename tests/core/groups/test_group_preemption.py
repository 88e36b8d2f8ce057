"""Preemption for groups: by pod as kube-scheduler does it without gates, and for the group as a whole."""

from __future__ import annotations

import pytest

from tests.core.groups.group_kit import (
    ALL_GATES,
    GATES,
    bound,
    cluster_with,
    gang,
    gpu_nodes,
    gpu_pod,
    members,
    pod_group,
)

WHOLE = (*GATES, "WorkloadAwarePreemption")


@pytest.mark.parametrize("gates", [GATES, WHOLE])
def test_a_gang_that_would_not_fit_evicts_nobody(gates: tuple[str, ...]) -> None:
    cluster = cluster_with(*gpu_nodes(8), gates=gates)
    cluster.apply(*(gpu_pod(f"low-{i}") for i in range(8)))
    cluster.schedule()
    cluster.apply(pod_group("high", 9, priority=10), *members("high", 9, priority=10))
    cluster.schedule()
    assert len(bound(cluster, "low")) == 8


@pytest.mark.parametrize("gates", [GATES, WHOLE])
def test_a_gang_evicts_as_many_as_it_needs(gates: tuple[str, ...]) -> None:
    cluster = cluster_with(*gpu_nodes(8), gates=gates)
    cluster.apply(*(gpu_pod(f"low-{i}") for i in range(8)))
    cluster.schedule()
    cluster.apply(pod_group("high", 4, priority=10), *members("high", 4, priority=10))
    cluster.schedule()
    assert len(bound(cluster, "low")) == 4
    assert len(bound(cluster, "high")) == 4


def test_with_backoff_a_gang_starts_once_the_victims_of_its_members_are_gone() -> None:
    cluster = cluster_with(*gpu_nodes(2), gang_args={"groupRetry": "Backoff"})
    cluster.apply(*(gpu_pod(f"low-{i}", nodeName=f"n{i}") for i in range(2)))
    cluster.apply(*members("high", 2, priority=10), pod_group("high", 1))
    cluster.advance(20)
    assert len(bound(cluster, "high")) == 2


@pytest.mark.parametrize("gates", [GATES, WHOLE])
def test_free_and_freed_room_count_together(gates: tuple[str, ...]) -> None:
    cluster = cluster_with(*gpu_nodes(2), gates=gates)
    cluster.apply(gpu_pod("low"))
    cluster.schedule()
    cluster.apply(pod_group("high", 2, priority=10), *members("high", 2, priority=10))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["high-0", "high-1"]


def test_a_group_that_is_disrupted_as_one_leaves_as_one() -> None:
    cluster = cluster_with(*gpu_nodes(4), gates=WHOLE)
    cluster.apply(pod_group("low", 3, disruptionMode="PodGroup", priority=0), *members("low", 3))
    cluster.schedule()
    cluster.apply(pod_group("high", 2, priority=10), *members("high", 2, priority=10))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["high-0", "high-1"]


def test_budgets_are_kept_where_others_can_leave() -> None:
    cluster = cluster_with(*gpu_nodes(3), gates=ALL_GATES)
    protected = gpu_pod("low-0")
    protected["metadata"]["labels"] = {"app": "db"}
    cluster.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "db", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 0},
        },
        protected,
        gpu_pod("low-1"),
        gpu_pod("low-2"),
    )
    cluster.schedule()
    cluster.apply(*gang("high", 0, min_count=2)[:1], *members("high", 2, priority=10))
    cluster.apply(pod_group("high", 2, priority=10))
    cluster.schedule()
    assert "low-0" in bound(cluster)
    assert len(bound(cluster, "high")) == 2
