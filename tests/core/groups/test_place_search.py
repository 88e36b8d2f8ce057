"""Gangs of different members that have no places in order, but have some."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.core.groups.group_kit import (
    GATES,
    bound,
    cluster_with,
    condition,
    gpu_node,
    gpu_pod,
    pod_group,
)


def mixed(*gpus: int, min_count: int = 0) -> list[dict[str, Any]]:
    pods = [gpu_pod(f"train-{i}", "train", gpus=count) for i, count in enumerate(gpus)]
    return [pod_group("train", min_count or len(gpus)), *pods]


# In order, the members of one GPU are spread over the large nodes, and those of eight find none.
SIX_NODES = [gpu_node(f"n{i}", gpus) for i, gpus in enumerate((8, 8, 8, 4, 4, 4))]
THREE_SHAPES = (1, 1, 1, 1, 3, 3, 3, 8, 8, 7)


def test_places_are_found_where_members_in_order_have_none(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_with(*SIX_NODES)
    with caplog.at_level(logging.INFO, "mooring.core"):
        cluster.apply(*mixed(*THREE_SHAPES))
        cluster.schedule()
    assert len(bound(cluster)) == len(THREE_SHAPES)
    assert condition(cluster, "train") == ("True", "Scheduled", "")
    assert "pod group default/train: greedy failed, places found in" in caplog.text


def test_without_planning_steps_members_are_tried_in_order_only() -> None:
    cluster = cluster_with(*SIX_NODES, gang_args={"planningSteps": 0})
    cluster.apply(*mixed(*THREE_SHAPES))
    cluster.schedule()
    assert bound(cluster) == {}


def test_the_search_takes_back_what_leads_nowhere() -> None:
    cluster = cluster_with(gpu_node("n0", 10), gpu_node("n1", 10), gpu_node("n2", 7))
    cluster.apply(*mixed(4, 4, 3, 3, 3, 3, 7))
    cluster.schedule()
    assert len(bound(cluster)) == 7


def test_a_gang_that_fits_nowhere_keeps_its_messages() -> None:
    cluster = cluster_with(gpu_node("n0", 8))
    cluster.apply(*mixed(4, 5))
    cluster.schedule()
    assert bound(cluster) == {}
    assert condition(cluster, "train") == ("False", "Unschedulable", "pod group is unschedulable")


def test_searching_wins_over_preemption() -> None:
    cluster = cluster_with(
        gpu_node("n0", 8), gpu_node("n1", 4), gates=(*GATES, "WorkloadAwarePreemption"), seed=1
    )
    cluster.apply(gpu_pod("low", gpus=1, nodeName="n1"))
    cluster.schedule()
    group, *pods = mixed(3, 8)
    group["spec"]["priority"] = 10
    cluster.apply(group, *pods)
    cluster.schedule()
    assert len(bound(cluster)) == 3
