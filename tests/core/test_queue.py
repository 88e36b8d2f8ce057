"""The scheduling queue: order, backoff, how pods come, change and go."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.event_map import (
    ASSIGNED_POD_ADD,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
)
from mooring.core.queue import Place, SchedulingQueue, sort_key_of
from mooring.core.queue.backoff import Backoff
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.plugin import Plugin, QueuedPod
from mooring.framework.status import unresolvable
from mooring.plugins.priority_sort import PrioritySort
from tests.core.queue_kit import FIT, PROFILE, Asked, Bench, Gate, changed, make_pod

# ---- order


def test_higher_priority_first_then_first_come_first_served() -> None:
    bench = Bench()
    bench.add(make_pod("a"), make_pod("b"))
    bench.now += 1
    bench.add(
        make_pod("c", priority=10), make_pod("d"), make_pod("e", priority=-1), make_pod("f", priority=10)
    )
    assert bench.pop_names() == ["c", "f", "a", "b", "d", "e"]
    assert bench.queue.pop() is None


def test_a_failed_pod_goes_behind_its_peers() -> None:
    bench = Bench(max_backoff=0)
    bench.add(make_pod("a"))
    bench.now += 1
    bench.add(make_pod("b"))
    bench.now += 1
    bench.fail(bench.pop())
    assert bench.pop_names() == ["b", "a"]


class ByName(Plugin):
    """Sorts by name, and has only `less`."""

    name = "ByName"

    def sorts_before(self, a: QueuedPod, b: QueuedPod) -> bool:
        return a.pod.labels.get("rank", "") < b.pod.labels.get("rank", "")


def test_a_queue_sort_plugin_without_key_is_asked_pair_by_pair() -> None:
    plugin = ByName(None, None)  # type: ignore[arg-type]
    bench = Bench(sort_key=sort_key_of(plugin))
    pods = [make_pod(f"p{rank}-{i}", labels={"rank": rank}) for i in range(3) for rank in "cab"]
    bench.add(*pods)
    assert bench.pop_names() == [f"p{rank}-{i}" for rank in "abc" for i in range(3)]


def test_an_update_moves_a_pod_to_its_new_place_in_the_order() -> None:
    plugin = ByName(None, None)  # type: ignore[arg-type]
    bench = Bench(sort_key=sort_key_of(plugin))
    bench.add(*(make_pod(f"p{rank}", labels={"rank": rank}) for rank in "dbfeac"))
    bench.queue.update(None, make_pod("pa", labels={"rank": "e1"}))
    bench.queue.update(None, make_pod("pf", labels={"rank": "a1"}))
    bench.queue.validate()
    assert bench.pop_names() == ["pf", "pb", "pc", "pd", "pe", "pa"]


def test_an_update_that_changes_nothing_keeps_the_place_among_equals() -> None:
    bench = Bench()
    bench.add(make_pod("a"), make_pod("b"))
    bench.queue.update(None, make_pod("a", labels={"x": "y"}))
    assert bench.pop_names() == ["a", "b"]


def test_many_pods_leave_in_order_whatever_order_they_came_in() -> None:
    bench = Bench()
    priorities = [(i * 7919) % 101 for i in range(500)]
    pods = [make_pod(f"p{i}", priority=priority) for i, priority in enumerate(priorities)]
    for pod in pods:
        bench.queue.add(pod)
    kept = pods[::5]
    for pod in pods:
        if pod not in kept:
            bench.queue.delete(pod)
    expected = sorted(kept, key=lambda pod: -pod.priority)
    bench.queue.validate()
    assert bench.pop_names() == [pod.name for pod in expected]


def test_pop_counts_attempts_and_notes_when_the_pod_first_became_active() -> None:
    bench = Bench(max_backoff=0)
    bench.add(make_pod("a"))
    bench.now += 5
    queued = bench.pop()
    assert (queued.attempts, queued.initial_attempt_timestamp, bench.queue.scheduling_cycle) == (1, 1000, 1)
    bench.fail(queued)
    assert bench.pop() is queued
    assert (queued.attempts, queued.initial_attempt_timestamp, bench.queue.scheduling_cycle) == (2, 1000, 2)


def test_a_second_entry_of_a_pod_in_flight_is_thrown_away() -> None:
    bench = Bench()
    bench.add(make_pod("old-name", uid="same"))
    bench.pop()
    bench.queue._admit(make_pod("new-name", uid="same"), "UnschedulablePodAdd")
    bench.add(make_pod("b"))
    assert bench.pop_names() == ["b"]
    bench.queue.validate()


# ---- backoff


def test_backoff_doubles_up_to_the_maximum() -> None:
    assert [Backoff(1, 10).duration(count) for count in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert Backoff(1, 10).duration(10_000) == 10
    assert Backoff(1, 10).duration(0) == 0
    assert Backoff(1, 0).duration(3) == 0


def test_the_second_in_which_a_backoff_expires_still_counts() -> None:
    bench = Bench(now=1000.5)
    bench.add(make_pod("a"))
    bench.fail(bench.pop())  # backs off until 1001.5, so through second 1001
    assert bench.queue.next_wake(bench.now) == 1002
    bench.flush_at(1001.99)
    assert bench.places() == {"backoff": 1}
    bench.flush_at(1002)
    assert bench.places() == {"active": 1}
    assert bench.observed["active", "BackoffComplete"] == 1
    assert bench.queue.next_wake(bench.now) is None


@pytest.mark.parametrize(("now", "place"), [(1001.99, "backoff"), (1002, "active")])
def test_an_event_within_that_second_does_not_end_the_backoff(now: float, place: str) -> None:
    bench = Bench(now=1000.5, hints=FIT)
    bench.refused(make_pod("a"), "Fit")
    bench.now = now
    bench.queue.move_all(NODE_ADD)
    assert bench.places() == {place: 1}


def test_a_refused_pod_is_tried_early_when_nothing_else_is_active_but_a_failed_one_is_not() -> None:
    bench = Bench(hints=FIT)
    bench.add(make_pod("refused"), make_pod("failed"))
    refused, failed = bench.pop(), bench.pop()
    bench.queue.move_all(NODE_ADD)
    bench.fail(refused, "Fit")
    bench.fail(failed)
    assert (refused.place, failed.place) == (Place.BACKOFF, Place.ERROR_BACKOFF)
    bench.add(make_pod("new"))
    assert bench.pop_names() == ["new", "refused"]
    assert bench.observed["active", "PopFromBackoffQ"] == 1
    assert bench.places() == {"backoff": 1}


def test_backing_off_pods_are_tried_by_second_of_expiry_then_priority() -> None:
    bench = Bench(hints=FIT)
    pods = [make_pod("late", priority=9), make_pod("low"), make_pod("high", priority=5)]
    bench.add(*pods)
    late, high, low = bench.pop(), bench.pop(), bench.pop()
    late.unschedulable_count = 2
    bench.queue.move_all(NODE_ADD)
    for queued, now in ((low, 1000.2), (high, 1000.7), (late, 1000.1)):
        bench.now = now
        bench.fail(queued, "Fit")
    assert bench.places() == {"backoff": 3}
    assert bench.pop_names() == ["high", "low", "late"]


def test_errors_count_apart_from_refusals_while_they_last() -> None:
    bench = Bench()
    bench.add(make_pod("a"))
    queued = bench.pop()

    def wait_after(*plugins: str) -> float:
        bench.fail(queued, *plugins)
        if queued.place is Place.UNSCHEDULABLE:
            bench.queue.move_all(UNSCHEDULABLE_TIMEOUT)
        wake = bench.queue.next_wake(bench.now)
        assert wake is not None
        wait = wake - bench.now
        bench.flush_at(wake)
        assert bench.pop() is queued
        return wait

    waits = [wait_after(*plugins) for plugins in (["X"], ["X"], ["X"], [], [], ["X"], [])]
    assert waits == [2, 3, 5, 2, 3, 9, 2]  # d + 1 at whole seconds
    assert (queued.unschedulable_count, queued.consecutive_errors) == (4, 1)


def test_without_maximum_there_is_no_backoff() -> None:
    bench = Bench(max_backoff=0)
    bench.add(make_pod("a"))
    bench.fail(bench.pop())
    assert bench.places() == {"active": 1}


def test_a_pod_whose_backoff_ended_while_it_waited_is_active_at_once() -> None:
    bench = Bench(hints=FIT)
    bench.refused(make_pod("a"), "Fit")
    bench.now += 2
    bench.queue.move_all(NODE_ADD)
    assert bench.places() == {"active": 1}


# ---- update, delete, activate


def test_an_update_of_an_unknown_pod_adds_it_and_an_addition_of_a_known_one_updates_it() -> None:
    bench = Bench()
    bench.queue.update(make_pod("a"), make_pod("a"))
    assert bench.places() == {"active": 1}
    assert bench.observed["active", "UnschedulablePodUpdate"] == 1
    newer = make_pod("a", priority=3)
    bench.add(newer)
    assert len(bench.queue) == 1
    assert bench.pop().pod is newer
    bench.add(newer)
    assert len(bench.queue) == 0


def test_a_pod_created_anew_under_its_name_keeps_the_counters() -> None:
    bench = Bench(hints={"X": [requeue_on(Resource.POD, Action.UPDATE)]})
    old, new = make_pod("a", uid="1"), make_pod("a", uid="2")
    queued = bench.refused(old, "X")
    bench.queue.update(old, new)
    bench.queue.validate()
    assert bench.pop() is queued
    assert (queued.pod.uid, queued.attempts, queued.unschedulable_count) == ("2", 2, 1)


def test_a_waiting_pod_created_anew_for_another_profile_waits_for_that_ones_events() -> None:
    hints = {PROFILE: FIT, "other": {"Fit": [requeue_on(Resource.POD, Action.ADD)]}}
    queue = SchedulingQueue(PrioritySort.sort_key, clock=lambda: 1000.0, hints=hints)
    old, new = make_pod("a", uid="1"), make_pod("a", uid="2", profile="other")
    queue.add(old)
    queued = queue.pop()
    assert queued is not None
    queued.refused_by(["Fit"])
    queue.add_unschedulable_if_not_present(queued, 1000.0)
    queue.update(old, new)
    queue.validate()
    queue.move_all(NODE_ADD)
    assert queue.counts()["unschedulable"] == 1
    queue.move_all(ASSIGNED_POD_ADD)
    assert queue.counts()["backoff"] == 1


def test_updates_in_backoff_keep_the_backoff() -> None:
    bench = Bench(hints=FIT)
    low, high = make_pod("low"), make_pod("high", priority=5)
    bench.add(low, high)
    first, second = bench.pop(), bench.pop()
    bench.queue.move_all(NODE_ADD)
    bench.fail(first, "Fit")
    bench.fail(second, "Fit")
    bench.queue.update(low, changed(low, priority=9))
    bench.queue.validate()
    assert bench.queue.next_wake(bench.now) == 1002
    assert bench.pop_names() == ["low", "high"]


def test_an_update_requeues_a_waiting_pod_only_if_a_refusing_plugin_says_so() -> None:
    hint = Asked(Hint.SKIP)
    bench = Bench(hints={"Taint": [requeue_on(Resource.POD, Action.UPDATE_POD_TOLERATION, hint)]})
    pod = make_pod("a")
    bench.refused(pod, "Taint")
    labelled = make_pod("a", labels={"x": "y"})
    bench.queue.update(pod, labelled)
    assert (bench.places(), hint.count) == ({"unschedulable": 1}, 0)
    tolerant = make_pod("a", labels={"x": "y"}, tolerations=1)
    bench.queue.update(labelled, tolerant)
    assert (bench.places(), hint.count) == ({"unschedulable": 1}, 1)
    hint.answer = Hint.QUEUE
    bench.queue.update(tolerant, make_pod("a", labels={"x": "y"}, tolerations=2))
    assert bench.places() == {"backoff": 1}
    assert bench.observed["unschedulable", "ScheduleAttemptFailure"] == 1


def test_delete_takes_a_pod_out_of_wherever_it_is() -> None:
    bench = Bench(hints=FIT, pre_enqueue=Gate(gated="Gate"))
    pods = {name: make_pod(name) for name in ("gated", "waiting", "backing", "failed", "active", "flying")}
    bench.refused(pods["waiting"], "Fit")
    bench.add(pods["backing"], pods["failed"], pods["flying"])
    backing, failed, _ = bench.pop(), bench.pop(), bench.pop()
    bench.queue._in_flight.record(NODE_ADD)
    bench.fail(backing, "Fit")
    bench.fail(failed)
    bench.add(pods["gated"], pods["active"])
    assert bench.places() == {"active": 1, "backoff": 2, "unschedulable": 1, "gated": 1}
    for pod in pods.values():
        bench.queue.delete(pod)
        bench.queue.validate()
    assert bench.places() == {}
    assert [queued.pod.name for queued in bench.queue.in_flight()] == ["flying"]
    assert bench.queue.next_wake(bench.now) is None


def test_late_news_of_a_pods_end_spares_the_one_created_anew_under_its_name() -> None:
    bench = Bench()
    old, new = make_pod("a", uid="1"), make_pod("a", uid="2")
    bench.add(old, new)
    bench.queue.delete(old)
    assert bench.pop().pod is new


def test_a_pod_that_fails_after_it_was_created_anew_makes_way() -> None:
    bench = Bench()
    old, new = make_pod("a", uid="1"), make_pod("a", uid="2")
    bench.add(old)
    queued = bench.pop()
    bench.queue.delete(old)
    bench.add(new)
    queued.refused_by(["X"])
    assert bench.queue.add_unschedulable_if_not_present(queued, bench.now) is None
    bench.queue.validate()
    assert list(bench.queue.in_flight()) == []
    assert bench.pop().pod is new


def test_activate_skips_the_backoff_but_not_the_gate() -> None:
    gate = Gate()
    bench = Bench(pre_enqueue=gate, hints=FIT)
    pods = [make_pod(name) for name in ("waiting", "failed", "gated", "active", "unknown")]
    waiting, failed, gated, active, _ = pods
    bench.refused(waiting, "Fit")
    bench.add(failed)
    bench.fail(bench.pop())
    gate.refused["gated"] = "Gate"
    bench.add(gated, active)
    asked = gate.asked
    bench.queue.activate(pods)
    bench.queue.validate()
    assert bench.places() == {"active": 3, "gated": 1}
    assert gate.asked == asked + 2  # the one from backoff passed it on the way there
    assert bench.observed["active", "ForceActivate"] == 2
    assert bench.observed["unschedulable", "ForceActivate"] == 0


def test_activating_a_pod_in_flight_brings_it_and_only_it_back_after_its_backoff() -> None:
    bench = Bench(hints=FIT)
    a, b = make_pod("a"), make_pod("b")
    bench.add(a, b)
    first, second = bench.pop(), bench.pop()
    bench.queue.activate([a])
    assert bench.queue.in_flight_counts()[FORCE_ACTIVATE.name] == 1
    bench.fail(first, "Fit")
    bench.fail(second, "Fit")
    assert (first.place, second.place) == (Place.BACKOFF, Place.UNSCHEDULABLE)


# ---- looking in


def test_every_entry_into_a_queue_is_observed_once() -> None:
    bench = Bench(hints=FIT)
    bench.refused(make_pod("a"), "Fit")
    bench.queue.move_all(NODE_ADD)
    bench.flush_at(1002)
    assert bench.observed == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_profiles_have_their_own_gates_and_registrations() -> None:
    queue = SchedulingQueue(
        PrioritySort.sort_key,
        clock=lambda: 1000.0,
        pre_enqueue={"other": lambda pod: unresolvable("no").by("Gate")},
        hints={PROFILE: FIT, "other": {"Fit": [requeue_on(Resource.POD, Action.ADD)]}},
    )
    queue.add(make_pod("gated", profile="other"))
    queue.add(make_pod("a"))
    queued = queue.pop()
    assert queued is not None
    queued.refused_by(["Fit"])
    queue.add_unschedulable_if_not_present(queued, 1000.0)
    queue.move_all(ASSIGNED_POD_ADD)
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1}


@pytest.mark.parametrize(
    ("damage", "story"),
    [
        (lambda queue, queued: setattr(queued, "place", Place.BACKOFF), "found in unschedulable: .*ns/a"),
        (lambda queue, queued: queue._queued.clear(), "in unschedulable but unknown: .*ns/a"),
        (lambda queue, queued: setattr(queued, "gating_plugin", "G"), "wrong gate .*ns/a"),
        (lambda queue, queued: setattr(queued, "not_before", 1.0), "against not_before: .*ns/a"),
        (lambda queue, queued: queue._queued.update(x=queued), "2 pods known, 1 found"),
        (lambda queue, queued: queue._in_flight.pods.update(x=queued), "in flight under x: .*ns/a"),
    ],
)
def test_validate_tells_the_story_of_a_pod_that_is_not_where_it_should_be(damage: Any, story: str) -> None:
    bench = Bench()
    queued = bench.refused(make_pod("a"), "X")
    damage(bench.queue, queued)
    with pytest.raises(AssertionError, match=story):
        bench.queue.validate()


def test_registrations_are_matched_once_per_kind_of_event() -> None:
    """A bound pod's AssignedPod/Add must not look at each of thousands of pods that wait for other things."""
    asked = Asked(Hint.SKIP)
    hints: dict[str, list[EventHint]] = {**FIT, "Affinity": [requeue_on(Resource.POD, Action.ADD, asked)]}
    bench = Bench(hints=hints)
    for i in range(200):
        bench.queue.add(make_pod(f"p{i}"))
    while (queued := bench.queue.pop()) is not None:
        queued.refused_by(["Affinity" if queued.pod.name == "p7" else "Fit"])
        bench.queue.add_unschedulable_if_not_present(queued, bench.now)
    for _ in range(5):
        bench.queue.move_all(ASSIGNED_POD_ADD, None, make_pod("bound", node="n"))
    assert asked.count == 5
    assert len(bench.queue._pool.groups) == 2
