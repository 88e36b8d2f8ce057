"""Nominations: kept in memory ahead of the API server, and counted in full."""

from mooring.core.nominator import Nominator
from mooring.framework.pod import PodInfo
from tests.core.queue_kit import Bench, changed, make_pod


def names(pods: object) -> list[str]:
    assert isinstance(pods, list | tuple)
    return [pod.name for pod in pods]


def test_a_nomination_is_taken_from_the_object_or_overridden() -> None:
    nominator = Nominator()
    nominator.add(make_pod("a", nominated="n1"))
    nominator.add(make_pod("b", nominated="n1"), "n2")
    nominator.add(make_pod("c"))
    assert names(nominator.nominated_for("n1")) == ["a"]
    assert names(nominator.nominated_for("n2")) == ["b"]
    assert nominator.node_of("uid-b") == "n2"
    assert nominator.node_of("uid-c") == ""
    assert names(nominator.nominated_for("n3")) == []


def test_a_pod_has_one_nomination_and_an_empty_name_takes_it_away() -> None:
    nominator = Nominator()
    pod = make_pod("a")
    nominator.add(pod, "n1")
    nominator.add(pod, "n2")
    assert set(nominator.nodes_with_nominations()) == {"n2"}
    nominator.add(make_pod("a", nominated="n2"), "")
    assert nominator.nodes_with_nominations() == {}
    nominator.validate()


def test_pods_of_a_node_keep_the_order_of_nomination() -> None:
    nominator = Nominator()
    for name in "abc":
        nominator.add(make_pod(name), "n")
    nominator.add(make_pod("a"), "n")
    nominator.delete("uid-b")
    assert names(nominator.nominated_for("n")) == ["c", "a"]


def test_each_node_whose_nominations_change_is_told() -> None:
    told: list[str] = []
    nominator = Nominator(changed=told.append)
    nominator.add(make_pod("a"), "n1")
    nominator.refresh(make_pod("a", priority=5))
    assert told == ["n1", "n1"]
    told.clear()
    nominator.add(make_pod("a"), "n2")
    assert told == ["n1", "n2"]
    told.clear()
    nominator.delete("uid-a")
    assert told == ["n2"]
    told.clear()
    nominator.delete("uid-a")
    nominator.refresh(make_pod("a"))
    nominator.add(make_pod("b"))
    assert told == []


def test_a_pod_that_is_gone_or_has_a_node_is_not_nominated() -> None:
    pending: set[str] = {"uid-a"}

    def is_pending(pod: PodInfo) -> bool:
        return pod.uid in pending

    nominator = Nominator(is_pending)
    nominator.add(make_pod("a"), "n")
    nominator.add(make_pod("b"), "n")
    assert names(nominator.nominated_for("n")) == ["a"]
    pending.clear()
    nominator.add(make_pod("a"), "n")
    assert names(nominator.nominated_for("n")) == []


def test_an_update_written_before_the_nomination_does_not_undo_it() -> None:
    nominator = Nominator()
    old, new = make_pod("a"), make_pod("a", labels={"x": "y"})
    nominator.add(old, "n")
    nominator.update(old, new)
    assert list(nominator.nominated_for("n")) == [new]


def test_an_update_that_adds_moves_or_removes_the_nomination_counts() -> None:
    nominator = Nominator()
    bare, first, second = make_pod("a"), make_pod("a", nominated="n1"), make_pod("a", nominated="n2")
    nominator.update(bare, first)
    assert nominator.node_of("uid-a") == "n1"
    nominator.update(first, second)
    assert nominator.node_of("uid-a") == "n2"
    nominator.update(second, bare)
    assert nominator.node_of("uid-a") == ""


def test_a_pod_created_anew_takes_the_nomination_over_with_its_new_uid() -> None:
    nominator = Nominator()
    old, new = make_pod("a", uid="1"), make_pod("a", uid="2")
    nominator.add(old, "n")
    nominator.update(old, new)
    assert nominator.node_of("1") == ""
    assert nominator.node_of("2") == "n"


# ---- through the queue


def test_the_queue_nominates_pods_whose_objects_say_so_and_forgets_deleted_ones() -> None:
    bench = Bench()
    pod = make_pod("a", nominated="n")
    bench.add(pod, make_pod("b"))
    nominator = bench.queue.nominator
    assert list(nominator.nominated_for("n")) == [pod]
    bench.queue.delete(pod)
    assert nominator.nodes_with_nominations() == {}
    bench.queue.update(None, make_pod("c", nominated="n"))
    assert names(nominator.nominated_for("n")) == ["c"]


def test_a_nominated_pod_in_flight_counts_with_its_requests_and_its_newest_object() -> None:
    bench = Bench()
    pod = make_pod("a", cpu="1", priority=7)
    bench.add(pod)
    bench.queue.nominator.add(pod, "n")
    bench.pop()
    (nominated,) = bench.queue.nominator.nominated_for("n")
    assert (nominated.requests["cpu"], nominated.priority) == (1000, 7)
    newer = changed(pod, tolerations=[])
    bench.queue.update(pod, newer)
    assert list(bench.queue.nominator.nominated_for("n")) == [newer]


def test_updates_of_queued_pods_reach_the_nominator() -> None:
    bench = Bench()
    active, waiting = make_pod("a"), make_pod("b")
    bench.refused(waiting, "X")
    bench.add(active)
    for pod in (active, waiting):
        bench.queue.update(pod, make_pod(pod.name, nominated="n"))
    assert names(bench.queue.nominator.nominated_for("n")) == ["a", "b"]
