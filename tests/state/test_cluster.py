"""The cluster's state by example: assumed pods, ghosts, images, growth and the log of changes."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from mooring.api.errors import MalformedObject
from mooring.framework.pod import PodInfo
from mooring.runtime.engine_nodes import Mark
from mooring.state.cluster import ClusterState
from mooring.state.columns import ChangeLog
from mooring.state.store import ObjectStore
from tests.state.facts import PREDICATES, facts, read_domains, whole
from tests.state.objects import ZONE, node, pod, thing


def cluster_of(*names: str) -> ClusterState:
    cluster = ClusterState()
    for name in names:
        cluster.add_node(node(name))
    return cluster


def info(cluster: ClusterState, name: str, on: str = "", cpu: str = "1") -> PodInfo:
    return cluster.info(pod(name, {"cpu": cpu}, on=on, labels={"app": "a"}))


def rows(*changed: int) -> array[int]:
    return array("q", changed)


def used(cluster: ClusterState) -> dict[str, int]:
    return {row.name: row.requested["cpu"] for row in cluster.nodes}


class TestAssuming:
    def test_an_assumed_pod_counts_and_a_forgotten_one_does_not(self) -> None:
        cluster = cluster_of("n0")
        empty = whole(cluster)
        cluster.assume(info(cluster, "p"), "n0")
        assert used(cluster) == {"n0": 1000}
        assert cluster.is_assumed("p")
        cluster.forget("p")
        assert whole(cluster) == empty

    def test_a_pod_is_assumed_once(self) -> None:
        cluster = cluster_of("n0", "n1")
        cluster.assume(info(cluster, "p"), "n0")
        with pytest.raises(ValueError, match=r"^pod p\(default/p\) is in the cache, so can't be assumed$"):
            cluster.assume(info(cluster, "p"), "n1")
        assert used(cluster) == {"n0": 1000, "n1": 0}

    def test_a_confirmed_pod_is_not_forgotten(self) -> None:
        cluster = cluster_of("n0")
        cluster.assume(info(cluster, "p"), "n0")
        cluster.add_pod(info(cluster, "p", on="n0"))
        cluster.forget("p")
        assert used(cluster) == {"n0": 1000}
        assert cluster.assumed_count() == 0

    def test_the_api_server_knows_better_where_a_pod_is(self) -> None:
        cluster = cluster_of("n0", "n1")
        cluster.assume(info(cluster, "p"), "n0")
        cluster.add_pod(info(cluster, "p", on="n1"))
        assert used(cluster) == {"n0": 0, "n1": 1000}
        assert cluster.node_of("p") == "n1"

    def test_forgetting_and_removing_a_stranger_does_nothing(self) -> None:
        cluster = cluster_of("n0")
        cluster.forget("nobody")
        cluster.remove_pod("nobody")
        cluster.remove_node("nowhere")
        assert len(cluster) == 0


class TestGhosts:
    def test_pods_of_an_unknown_node_count_when_it_appears(self) -> None:
        cluster = cluster_of("n0")
        cluster.add_pod(info(cluster, "p", on="n1"))
        assert used(cluster) == {"n0": 0}
        cluster.add_node(node("n1"))
        assert used(cluster) == {"n0": 0, "n1": 1000}

    def test_pods_of_a_node_that_went_count_when_it_comes_back(self) -> None:
        cluster = cluster_of("n0", "n1", "n2")
        cluster.add_pod(info(cluster, "p", on="n0"))
        cluster.add_pod(info(cluster, "q", on="n2", cpu="2"))
        cluster.remove_node("n0")  # the last row takes its place
        assert used(cluster) == {"n1": 0, "n2": 2000}
        assert cluster.placed("p") is not None
        cluster.add_node(node("n0"))
        assert used(cluster) == {"n0": 1000, "n1": 0, "n2": 2000}

    def test_a_ghost_can_change_and_go(self) -> None:
        cluster = cluster_of()
        cluster.add_pod(info(cluster, "p", on="n0"))
        cluster.add_pod(info(cluster, "q", on="n0"))
        cluster.update_pod(info(cluster, "p", on="n0", cpu="3"))
        cluster.remove_pod("q")
        cluster.add_node(node("n0"))
        assert used(cluster) == {"n0": 3000}
        cluster.remove_node("n0")
        cluster.remove_pod("p")
        cluster.add_node(node("n0"))
        assert used(cluster) == {"n0": 0}


class TestImages:
    def test_the_first_reporter_of_an_image_says_its_size(self) -> None:
        cluster = ClusterState()
        cluster.add_node(node("n0", images={"app:1": 100}))
        cluster.add_node(node("n1", images={"app:1": 999}))
        held, size, holders = cluster.nodes.image("app:1")
        assert (held.tolist(), size, holders) == ([True, True], 100, 2)
        cluster.remove_node("n0")  # not its size, as long as somebody has it
        assert [
            part if isinstance(part, int) else part.tolist() for part in cluster.nodes.image("app:1")
        ] == [
            [True],
            100,
            1,
        ]
        cluster.update_node(node("n1"))
        assert cluster.nodes.image("app:1")[1:] == (0, 0)
        cluster.update_node(node("n1", images={"app:1": 7}))
        assert cluster.nodes.image("app:1")[1:] == (7, 1)


class TestMalformedNodes:
    def test_a_node_that_makes_no_sense_changes_nothing(self) -> None:
        cluster = cluster_of("n0")
        cluster.add_pod(info(cluster, "p", on="n0"))
        before, mark = whole(cluster), cluster.nodes.mark
        bad = {"cpu": "4", "memory": "plenty"}
        with pytest.raises(MalformedObject, match=r"Node n1: status\.allocatable\.memory"):
            cluster.add_node(node("n1", bad))
        with pytest.raises(MalformedObject, match=r"Node n0: status\.allocatable\.memory"):
            cluster.update_node(node("n0", bad))
        assert whole(cluster) == before
        assert cluster.nodes.changed_since(mark) == (rows(), rows())


class TestGrowth:
    def test_columns_grow_with_everything_in_them(self) -> None:
        cluster = ClusterState()
        sums = None
        for i in range(150):
            labels = {ZONE: f"z{i % 3}"}
            cluster.add_node(node(f"n{i}", {"cpu": i, "pods": i, "example.com/late": i}, labels=labels))
            cluster.add_pod(info(cluster, f"p{i}", on=f"n{i}"))
            cluster.nodes.label(ZONE)
            cluster.nodes.count(PREDICATES[0])  # so that a counter lives through the growth
            if i == 148:
                sums = cluster.nodes.domain_sums(PREDICATES[0], ZONE)
        assert sums is not None
        table = facts(cluster.nodes)
        for i in range(150):
            told = table[f"n{i}"]
            assert told["allowed pods"] == i
            assert told["allocatable"] == {
                name: amount for name, amount in (("cpu", 1000 * i), ("example.com/late", i)) if amount
            }
            assert told["requested"] == {"cpu": 1000}
            assert told["labels"][ZONE] == f"z{i % 3}"
            assert told["counts"][0] == 1
        fresh = cluster.nodes.domain_sums(PREDICATES[0], ZONE)
        assert read_domains(cluster.nodes, ZONE, fresh) == {f"z{i}": (50, 50) for i in range(3)}

    def test_a_resource_that_appears_late_moves_no_amount_of_another(self) -> None:
        cluster = cluster_of("n0", "n1")
        cluster.add_pod(info(cluster, "p0", on="n0"))
        before = facts(cluster.nodes)
        mark = cluster.nodes.mark
        cluster.add_pod(cluster.info(pod("late", {"example.com/late": 2}, on="n1")))
        after = facts(cluster.nodes)
        assert cluster.nodes.changed_since(mark) == (rows(), rows(1))
        assert after["n0"] == before["n0"]
        assert after["n1"]["allocatable"] == before["n1"]["allocatable"]
        assert after["n1"]["allowed pods"] == before["n1"]["allowed pods"]
        assert after["n1"]["requested"] == {"example.com/late": 2}
        assert after["n1"]["pod count"] == 1

    def test_rows_stay_dense_when_nodes_go(self) -> None:
        cluster = cluster_of(*(f"n{i}" for i in range(100)))
        for i in range(100):
            cluster.add_pod(info(cluster, f"p{i}", on=f"n{i}", cpu=str(i)))
        for i in range(0, 100, 3):
            cluster.remove_node(f"n{i}")
        left = {f"n{i}": 1000 * i for i in range(100) if i % 3}
        assert used(cluster) == left
        assert len(cluster.nodes) == len(left)
        assert sorted(cluster.table.row_of.values()) == list(range(len(left)))


class TestChangeLog:
    def test_a_reader_learns_what_is_new_since_it_looked(self) -> None:
        log = ChangeLog()
        log.add(3)
        position = log.position
        assert log.since(position) == rows()
        log.add(1)
        log.add(1)
        assert log.since(position) == rows(1, 1)
        assert log.since(0) == rows(3, 1, 1)

    def test_a_reader_that_comes_too_late_is_told_so(self) -> None:
        log = ChangeLog()
        for i in range(5 * ChangeLog.KEEP):
            log.add(i)
        assert log.position == 5 * ChangeLog.KEEP
        assert log.since(0) is None
        recent = log.position - ChangeLog.KEEP
        assert log.since(recent) == rows(*range(recent, log.position))

    def test_a_table_with_a_long_past_says_perhaps_all(self) -> None:
        cluster = cluster_of("n0")
        mark = cluster.nodes.mark
        placed = info(cluster, "p")
        for _ in range(ChangeLog.KEEP + 1):
            cluster.assume(placed, "n0")
            cluster.forget("p")
        assert cluster.nodes.changed_since(mark) == (rows(), None)
        assert cluster.nodes.changed_since(Mark(0, 0, 0)) == (rows(0), None)

    def test_sums_find_their_way_back_after_a_long_time(self) -> None:
        cluster = cluster_of("n0", "n1")
        sums = cluster.nodes.domain_sums(PREDICATES[0], "kubernetes.io/hostname")
        placed = info(cluster, "p")
        for _ in range(ChangeLog.KEEP + 1):
            cluster.assume(placed, "n0")
            cluster.forget("p")
        cluster.assume(placed, "n1")
        assert sums.refresh()
        assert read_domains(cluster.nodes, "kubernetes.io/hostname", sums) == {"n0": (1, 0), "n1": (1, 1)}


class TestTouching:
    def test_a_touched_node_counts_as_changed(self) -> None:
        cluster = cluster_of("n0", "n1")
        mark = cluster.nodes.mark
        cluster.touch("n1")
        cluster.touch("unknown")
        assert cluster.nodes.changed_since(mark) == (rows(), rows(1))

    def test_a_heartbeat_is_no_change(self) -> None:
        cluster = cluster_of("n0")
        mark = cluster.nodes.mark
        assert not cluster.update_node(node("n0"))
        assert cluster.nodes.changed_since(mark) == (rows(), rows())
        assert cluster.update_node(node("n0", unschedulable=True))
        assert cluster.nodes.changed_since(mark) == (rows(0), rows())


class TestObjectStore:
    def test_objects_by_kind_and_name(self) -> None:
        store = ObjectStore()
        service, other = thing("Service", "s", "default"), thing("Service", "s", "other")
        kind = type(service)
        assert store.put(service) is None
        assert store.put(other) is None
        version = store.version(kind)
        assert store.get(kind, "s", "default") is service
        assert store.list(kind) == [service, other]
        assert store.list(kind, "other") == [other]
        assert store.put(thing("Service", "s", "default")) is service
        assert store.version(kind) != version
        version = store.version(kind)
        assert store.remove(kind, "other/s") is other
        assert store.remove(kind, "other/s") is None
        assert store.get(kind, "s", "other") is None
        assert store.version(kind) == version + 1


def test_views_of_some_rows() -> None:
    cluster = cluster_of("n0", "n1", "n2", "n3")
    for i in range(4):
        cluster.add_pod(info(cluster, f"p{i}", on=f"n{i}", cpu=str(i)))
    everything = facts(cluster.nodes)
    some = cluster.nodes.take(np.array([3, 1]))
    assert facts(some) == {name: everything[name] for name in ("n3", "n1")}
    assert some.index("n0") is None
    assert facts(cluster.nodes.take(slice(1, 2))) == {"n1": everything["n1"]}
    assert facts(some.part(np.array([1]))) == {"n1": everything["n1"]}
    assert facts(some.whole) == everything


def test_a_row_that_is_gone_again_is_not_told_as_changed() -> None:
    """A node that came and went between two looks leaves as many rows as before."""
    cluster = ClusterState()
    cluster.add_node(node("a"))
    mark = cluster.nodes.mark
    cluster.add_node(node("b"))
    cluster.add_pod(cluster.info(pod("p", on="b")))
    cluster.remove_node("b")
    assert cluster.nodes.mark.length == mark.length
    of_nodes, of_pods = cluster.nodes.changed_since(mark)
    assert of_nodes == rows()
    assert of_pods == rows()
