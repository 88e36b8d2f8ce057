"""Gangs and failing binding requests, with the verbs of both test clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from mooring.testing import Cluster, make_cluster, make_node, make_pod
from mooring.testing.sandbox_cluster import SandboxCluster

GATES = ["GenericWorkload", "GangScheduling"]
Make = Callable[[int], Cluster]


def in_memory(nodes: int) -> Cluster:
    return make_cluster([make_node(f"n{i}", cpu="4") for i in range(nodes)], feature_gates=GATES)


def in_a_sandbox(nodes: int) -> Cluster:
    return SandboxCluster([make_node(f"n{i}", cpu="4") for i in range(nodes)], feature_gates=GATES)


@pytest.fixture(params=[in_memory, in_a_sandbox])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    clusters: list[Cluster] = []

    def made(nodes: int) -> Cluster:
        clusters.append(request.param(nodes))
        return clusters[-1]

    yield made
    for cluster in clusters:
        cluster.close()


def bound(cluster: Cluster) -> int:
    return sum(bool(pod.spec.node_name) for pod in cluster.pods())


def test_a_gang_starts_whole_or_not_at_all(make: Make) -> None:
    cluster = make(7)
    assert cluster.gang("train", 8, requests={"cpu": "4"}) == [f"train-{i}" for i in range(8)]
    cluster.advance(60)
    assert bound(cluster) == 0
    assert "7 of 8 members have a place; train-7 lacks 4 cpu" in cluster.explain_group("train")
    cluster.apply(make_node("n7", cpu="4"))
    cluster.wait_scheduled()


def test_a_binding_request_that_fails_is_repeated_in_place(make: Make) -> None:
    cluster = make(8)
    requests = cluster.fail_bind("train-3", times=2)
    cluster.gang("train", 8, requests={"cpu": "4"})
    cluster.schedule()
    cluster.apply(make_pod("rival", requests={"cpu": "4"}))
    cluster.wait_scheduled(*(f"train-{i}" for i in range(8)))
    assert [round(b - a, 2) for a, b in pairwise(requests)] == [0.1, 0.2]
    assert cluster.node_of("rival") == ""


def test_groups_are_read_and_deleted_by_name(make: Make) -> None:
    cluster = make(2)
    cluster.gang("train", 3, requests={"cpu": "4"})
    assert cluster.get("podgroup/train")["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    cluster.delete("podgroup/train", *(f"pod/train-{i}" for i in range(3)))
    cluster.advance(10)
    with pytest.raises(LookupError):
        cluster.get("podgroup/train")


def test_some_members_are_enough(make: Make) -> None:
    cluster = make(3)
    cluster.gang("train", 5, min_count=3, requests={"cpu": "4"})
    cluster.advance(1)
    assert bound(cluster) == 3


def test_an_error_of_your_own(make: Make) -> None:
    cluster = make(1)
    cluster.fail_bind("web", error=ValueError("no such lease"))
    cluster.apply(make_pod("web"))
    cluster.schedule()
    assert any("no such lease" in event.note for event in cluster.events("pod/web"))
    cluster.wait_scheduled()


def test_gangs_need_their_gate() -> None:
    with pytest.raises(RuntimeError, match="feature gate GangScheduling is off\nhint: make_cluster"):
        make_cluster(3).gang("train", 2)


@pytest.mark.mooring_cluster(nodes=2, feature_gates=GATES)
def test_the_fixture_takes_feature_gates(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.gang("train", 2)
    mooring_cluster.wait_scheduled()
    assert mooring_cluster.get("podgroup/train")["status"]["conditions"][0]["reason"] == "Scheduled"
