"""Long searches for victims in slices: the same answer, and others are scheduled meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.core.effects import EmitEvent, Evict
from mooring.core.groups import slices
from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.core.groups.group_kit import (
    ALL_GATES,
    bound,
    cluster_with,
    evict_slowly,
    gpu_node,
    gpu_pod,
    members,
    nominated,
    pod_group,
)


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "STEPS", 2)


def full_cluster(seed: int) -> SchedulerCluster:
    """Nodes that are full of less important pods, some of them in gangs, and a gang that needs some nodes."""
    choose = random.Random(seed)
    cluster = cluster_with(gates=ALL_GATES)
    count = choose.randint(2, 8)
    cluster.apply(*(gpu_node(f"n{i}") for i in range(count)))
    cluster.apply(pod_group("low", choose.randint(1, 3)))
    for i in range(count):
        sizes = choose.choice(([8], [4, 4], [2, 6], [1, 3, 4]))
        for j, gpus in enumerate(sizes):
            group = choose.choice(("", "", "low"))
            pod = gpu_pod(f"low-{i}-{j}", group, gpus, choose.randint(0, 2), nodeName=f"n{i}")
            cluster.apply(pod)
    needed = choose.randint(1, count)
    cluster.apply(
        pod_group("train", needed, priority=10), *members("train", needed, gpus=choose.choice((4, 8)))
    )
    return cluster


def answer(cluster: SchedulerCluster) -> tuple[Any, ...]:
    effects = cluster.scheduler.take_effects()
    victims = [effect.victim.name for effect in effects if isinstance(effect, Evict)]
    notes = [effect.note for effect in effects if isinstance(effect, EmitEvent)]
    nominator = cluster.scheduler.queue.nominator
    return victims, notes, [nominator.node_of(f"pod-train-{i}") for i in range(8)]


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_slices_do_not_change_the_answer(seed: int) -> None:
    at_once, sliced = full_cluster(seed), full_cluster(seed)
    at_once.scheduler.schedule_one()
    pauses = 0
    while sliced.scheduler.schedule_slice() is None and sliced.scheduler.is_paused:
        pauses += 1
    assert answer(sliced) == answer(at_once)


def preempting() -> tuple[SchedulerCluster, list[str]]:
    cluster = cluster_with(*(gpu_node(f"n{i}") for i in range(6)), gates=ALL_GATES)
    evicted = evict_slowly(cluster)
    cluster.apply(*(gpu_pod(f"low-{i}", nodeName=f"n{i}") for i in range(6)))
    cluster.apply(pod_group("train", 3, priority=10), *members("train", 3))
    assert cluster.scheduler.schedule_slice() is None
    assert cluster.scheduler.is_paused
    return cluster, evicted


def test_other_pods_are_scheduled_in_a_pause() -> None:
    cluster, evicted = preempting()
    cluster.apply(gpu_pod("web", gpus=0))
    decision = cluster.scheduler.schedule_slice()
    assert decision is not None
    assert decision.pod == "default/web"
    assert cluster.scheduler.is_paused
    cluster.schedule()
    assert len(evicted) == 3
    assert len(nominated(cluster, "train")) == 3


def test_room_that_appears_in_a_pause_saves_the_victims() -> None:
    cluster, evicted = preempting()
    cluster.apply(*(gpu_node(f"new-{i}") for i in range(3)))
    cluster.schedule()
    assert evicted == []
    assert len(bound(cluster, "train")) == 3


@pytest.mark.parametrize("change", ["victim leaves", "member leaves", "member comes", "node goes"])
def test_a_plan_that_was_overtaken_is_made_again(change: str) -> None:
    cluster, evicted = preempting()
    if change == "victim leaves":
        cluster.delete(*(f"pod/low-{i}" for i in range(6) if i % 2))
    elif change == "member leaves":
        cluster.delete("pod/train-1")
        cluster.apply(*members("train", 1, start=1))
    elif change == "member comes":
        cluster.apply(*members("train", 1, start=3))
    else:
        cluster.delete("node/n5")
    cluster.schedule()
    for name in evicted:
        cluster.delete(f"pod/{name}")
    cluster.schedule()
    assert len(bound(cluster, "train")) >= 3
    assert len(evicted) <= 4
    cluster.scheduler.queue.validate()
