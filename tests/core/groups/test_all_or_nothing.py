"""Gangs start whole or not at all."""

from __future__ import annotations

from typing import Any

from tests.core.groups.group_kit import (
    GROUP_WAITS,
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


def test_without_the_gates_a_group_means_nothing() -> None:
    cluster = cluster_with(*gpu_nodes(2), gates=())
    cluster.apply(*members("train", 3))
    cluster.schedule()
    assert len(bound(cluster)) == 2


def test_a_gang_that_does_not_fit_binds_nothing() -> None:
    cluster = cluster_with(*gpu_nodes(4))
    cluster.apply(*gang("train", 5))
    cluster.advance(3600)
    assert bound(cluster) == {}
    assert condition(cluster, "train") == ("False", "Unschedulable", "pod group is unschedulable")
    messages = sorted(message(cluster, f"train-{i}") for i in range(5))
    assert messages[1:] == [GROUP_WAITS] * 4
    assert messages[0].startswith("0/4 nodes are available: 4 Insufficient nvidia.com/gpu. ")
    cluster.apply(*(gpu_pod(f"web-{i}") for i in range(4)))
    cluster.schedule()
    assert len(bound(cluster, "web")) == 4


def test_surplus_members_fail_alone() -> None:
    cluster = cluster_with(*gpu_nodes(5))
    cluster.apply(*gang("train", 5))
    cluster.schedule()
    cluster.apply(*members("train", 5, start=5))
    cluster.schedule()
    assert sorted(bound(cluster)) == [f"train-{i}" for i in range(5)]
    assert message(cluster, "train-7").startswith("0/5 nodes are available: 5 Insufficient")
    assert condition(cluster, "train") == ("True", "Scheduled", "")


def test_two_gangs_never_hold_half_each() -> None:
    cluster = cluster_with(*gpu_nodes(8))
    first, second = gang("a", 8), gang("b", 8)
    cluster.apply(first[0], second[0])
    for one, other in zip(first[1:], second[1:], strict=True):
        cluster.apply(one, other)
    cluster.schedule()
    assert len(bound(cluster, "a")) == 8
    assert bound(cluster, "b") == {}
    cluster.delete(*(f"pod/a-{i}" for i in range(7)))
    cluster.schedule()
    assert bound(cluster, "b") == {}
    cluster.delete("pod/a-7")
    cluster.schedule()
    assert len(bound(cluster, "b")) == 8


def test_an_unschedulable_gang_is_tried_only_when_something_changed() -> None:
    cluster = cluster_with(*gpu_nodes(3))
    cluster.apply(*gang("huge", 4))
    cluster.advance(200)
    tries = [d for d in cluster.decisions if d.pod == "default/huge-0"]
    assert len(tries) == 1
    cluster.apply(gpu_node("n3"))
    cluster.schedule()  # in the same instant
    assert len(bound(cluster)) == 4


def test_the_last_member_starts_the_gang_without_backoff() -> None:
    cluster = cluster_with(*gpu_nodes(4))
    cluster.apply(*members("train", 3))
    cluster.advance(1)
    cluster.apply(pod_group("train", 4))
    cluster.advance(1)
    assert cluster.decisions == []
    cluster.apply(*members("train", 1, start=3))
    cluster.schedule()
    assert len(bound(cluster)) == 4


def test_a_gate_holds_the_gang_until_it_is_removed() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    cluster.apply(*gang("train", 1, min_count=2))
    cluster.apply(gpu_pod("train-1", "train", schedulingGates=[{"name": "wait"}]))
    cluster.advance(1)
    assert bound(cluster) == {}
    cluster.apply(gpu_pod("train-1", "train"))
    cluster.schedule()
    assert len(bound(cluster)) == 2


def test_lowering_min_count_starts_the_gang_at_once() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    assert bound(cluster) == {}
    cluster.apply(pod_group("train", 2))
    cluster.schedule()
    assert len(bound(cluster)) == 2


def test_elastic_members_start_one_by_one_as_room_appears() -> None:
    cluster = cluster_with(*gpu_nodes(7))
    cluster.apply(*gang("train", 10, min_count=4))
    cluster.schedule()
    assert len(bound(cluster)) == 7
    cluster.apply(gpu_node("n7"))
    cluster.schedule()
    assert len(bound(cluster)) == 8


def test_the_basic_policy_schedules_what_fits() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    cluster.apply(pod_group("web", None), *members("web", 3))
    cluster.schedule()
    assert len(bound(cluster)) == 2
    assert condition(cluster, "web") == ("True", "Scheduled", "")


def test_members_of_several_profiles_fail() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    cluster.apply(*gang("train", 2))
    cluster.apply(gpu_pod("other", schedulerName="other"))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["train-0", "train-1"]


def test_members_keep_away_from_siblings_that_were_placed_just_before() -> None:
    """kube-scheduler sees anti-affinity of pods that were there before the attempt, and of the pod itself."""
    term = {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": "kubernetes.io/hostname"}
    alone: dict[str, Any] = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }
    nodes = [gpu_node("n0", 8, **{"kubernetes.io/hostname": "n0"})]
    cluster = cluster_with(*nodes)
    pods = [gpu_pod("train-0", "train", 1, **alone), gpu_pod("train-1", "train", 1)]
    for pod in pods:
        pod["metadata"]["labels"] = {"app": "train"}
    cluster.apply(pod_group("train", 2), *pods)
    cluster.schedule()
    assert bound(cluster) == {}
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in message(cluster, "train-1")
    cluster.apply(gpu_node("n1", 8, **{"kubernetes.io/hostname": "n1"}))
    cluster.schedule()
    assert len(set(bound(cluster).values())) == 2


def test_a_gang_that_lost_a_waiting_member_is_not_tried() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    attempts = len(cluster.events("pod/train-0"))
    cluster.delete("pod/train-2")
    cluster.apply(gpu_node("n2"))
    cluster.advance(60)
    assert len(cluster.events("pod/train-0")) == attempts
    assert bound(cluster) == {}
