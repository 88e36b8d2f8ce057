"""The scheduling queue: order, backoff, waiting for events, gates, pods in flight, timed wake-ups."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from queue_kit import PROFILE, Bench, changed, make_pod

from mooring.api.objects import Toleration
from mooring.core.event_map import (
    ANY_EVENT,
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    events_of,
)
from mooring.core.queue import Place, sort_key_of
from mooring.core.queue.backoff import Backoff
from mooring.framework.events import Action, ClusterEvent, EventHint, Hint, Resource, on
from mooring.framework.plugin import Plugin, QueuedPod
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, unresolvable
from mooring.plugins.scheduling_gates import SchedulingGates

NODE_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
NODE_ANNOTATION = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ANNOTATION)
FIT = {"Fit": [on(Resource.NODE, Action.ADD)]}


class Asked:
    """A hint that answers as told and counts how often it was asked."""

    def __init__(self, answer: Hint | Exception = Hint.QUEUE) -> None:
        self.answer = answer
        self.count = 0

    def __call__(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        self.count += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


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

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
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
    for pod in pods[::3]:
        bench.queue.delete(pod)
    kept = [pod for i, pod in enumerate(pods) if i % 3]
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


# ---- events


def test_a_refused_pod_waits_for_an_event_that_its_plugin_registered() -> None:
    hint = Asked()
    bench = Bench(
        hints={"Fit": [on(Resource.NODE, Action.ADD, hint)], "Other": [on(Resource.POD, Action.ADD)]}
    )
    bench.refused(make_pod("a"), "Fit")
    assert bench.places() == {"unschedulable": 1}
    bench.queue.move_all(ASSIGNED_POD_ADD, None, make_pod("x", node="n"))
    bench.queue.move_all(NODE_ANNOTATION)
    assert (bench.places(), hint.count) == ({"unschedulable": 1}, 0)
    bench.queue.move_all(NODE_ADD)
    assert (bench.places(), hint.count) == ({"backoff": 1}, 1)
    assert bench.observed["backoff", "NodeAdd"] == 1
    bench.queue.validate()


def test_a_hint_that_says_skip_leaves_the_pod_and_one_that_raises_brings_it_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hint = Asked(Hint.SKIP)
    bench = Bench(hints={"Fit": [on(Resource.NODE, Action.ADD, hint)]})
    bench.refused(make_pod("a"), "Fit")
    bench.queue.move_all(NODE_ADD)
    assert bench.places() == {"unschedulable": 1}
    hint.answer = RuntimeError("broken hint")
    bench.queue.move_all(NODE_ADD)
    assert bench.places() == {"backoff": 1}
    assert "Fit" in caplog.text
    assert "broken hint" in caplog.text


def test_hints_see_the_pod_and_both_objects() -> None:
    seen: list[tuple[PodInfo, object, object]] = []

    def hint(pod: PodInfo, old: object, new: object) -> Hint:
        seen.append((pod, old, new))
        return Hint.SKIP

    bench = Bench(hints={"Fit": [on(Resource.NODE, Action.ADD, hint)]})
    pod = make_pod("a")
    bench.refused(pod, "Fit")
    bench.queue.move_all(NODE_ADD, "before", "after")
    assert seen == [(pod, "before", "after")]


@pytest.mark.parametrize(
    ("pending", "skipping", "place"),
    [("P", [], "active"), ("P", ["P"], "backoff"), ("P", ["P", "F"], "unschedulable"), ("", [], "backoff")],
)
def test_an_event_of_a_pending_plugin_skips_the_backoff(
    pending: str, skipping: list[str], place: str
) -> None:
    hints = {
        name: [on(Resource.NODE, Action.ADD, Asked(Hint.SKIP if name in skipping else Hint.QUEUE))]
        for name in "FP"
    }
    bench = Bench(hints=hints)
    bench.refused(make_pod("a"), "F", pending=pending)
    bench.queue.move_all(NODE_ADD)
    assert bench.places() == {place: 1}


def test_unconditional_registrations_need_no_hint() -> None:
    asked = Asked(Hint.SKIP)
    hints = {"F": [on(Resource.NODE, Action.ADD)], "G": [on(Resource.NODE, Action.ADD, asked)]}
    bench = Bench(hints=hints)
    bench.refused(make_pod("a"), "F", "G")
    bench.refused(make_pod("b"), pending=["F"])
    bench.queue.move_all(NODE_ADD)
    assert (bench.places(), asked.count) == ({"backoff": 1, "active": 1}, 0)


def test_a_plugin_that_waits_for_nodes_is_woken_by_taint_changes_whatever_its_hint_says() -> None:
    bench = Bench(hints={"Fit": [on(Resource.NODE, Action.ADD, Asked(Hint.SKIP))]})
    bench.refused(make_pod("a"), "Fit")
    bench.queue.move_all(NODE_TAINT)
    assert bench.places() == {"backoff": 1}


def test_the_plain_update_event_wakes_only_who_registered_for_all_updates() -> None:
    hints = {"Label": [on(Resource.POD, Action.UPDATE_POD_LABEL)], "All": [on(Resource.POD, Action.UPDATE)]}
    for plugin, moved in (("Label", False), ("All", True)):
        bench = Bench(hints=hints)
        pod = make_pod("a")
        bench.refused(pod, plugin)
        bench.queue.update(pod, changed(pod, priority_class_name="x"))
        assert bench.places() == {"backoff" if moved else "unschedulable": 1}
        bench.queue.validate()


def test_refusals_by_extenders_wait_for_any_kind_of_event() -> None:
    bench = Bench(hints={"Extender": list(ANY_EVENT)})
    bench.refused(make_pod("a"), "Extender")
    bench.queue.move_all(NODE_ANNOTATION)
    assert bench.places() == {"backoff": 1}


def test_a_pod_of_an_unknown_profile_is_retried_on_any_event_that_concerns_anyone() -> None:
    bench = Bench(hints=FIT)
    bench.refused(make_pod("a", profile="other"), "Fit")
    bench.queue.move_all(NODE_ANNOTATION)
    assert bench.places() == {"unschedulable": 1}
    bench.queue.move_all(NODE_ADD)
    assert bench.places() == {"backoff": 1}


def test_a_predicate_restricts_the_pods_that_move() -> None:
    bench = Bench(hints=FIT)
    bench.refused(make_pod("low", priority=1), "Fit")
    bench.refused(make_pod("high", priority=5), "Fit")
    bench.queue.move_all(NODE_ADD, predicate=lambda pod: pod.priority <= 1)
    low, high = bench.queue.get("ns/low"), bench.queue.get("ns/high")
    assert low is not None
    assert high is not None
    assert (low.place, high.place) == (Place.BACKOFF, Place.UNSCHEDULABLE)


def test_what_a_pod_waits_for_can_be_told() -> None:
    bench = Bench(hints={"Fit": [on(Resource.NODE, Action.ADD, Asked())], "X": []})
    queued = bench.refused(make_pod("a"), "Fit", "X")
    assert bench.queue.awaited(queued) == {"Fit": [NODE_ADD, NODE_TAINT], "X": []}
    assert bench.queue.backoff_ends(queued) == 1002
    assert repr(queued).count("['Fit', 'X']") == 1


# ---- pods in flight


def test_a_relevant_event_during_the_attempt_saves_the_pod_from_waiting() -> None:
    bench = Bench(hints={**FIT, "X": [on(Resource.POD, Action.ADD)]})
    bench.add(make_pod("a"), make_pod("b"), make_pod("c"))
    bench.queue.move_all(NODE_ADD)  # before any of them was popped
    a, b = bench.pop(), bench.pop()
    bench.queue.move_all(NODE_ADD)
    c = bench.pop()
    bench.fail(a, "Fit")
    bench.fail(b, "X")
    bench.fail(c, "Fit")
    assert [queued.place for queued in (a, b, c)] == [
        Place.BACKOFF,
        Place.UNSCHEDULABLE,
        Place.UNSCHEDULABLE,
    ]
    assert bench.observed["backoff", "ScheduleAttemptFailure"] == 1


def test_hints_decide_about_events_during_the_attempt_too() -> None:
    skip, queue = Asked(Hint.SKIP), Asked(Hint.QUEUE)
    bench = Bench(
        hints={"S": [on(Resource.NODE, Action.ADD, skip)], "P": [on(Resource.POD, Action.ADD, queue)]}
    )
    bench.add(make_pod("a"), make_pod("b"))
    a, b = bench.pop(), bench.pop()
    bench.queue.move_all(NODE_ADD)
    bench.fail(a, "S")
    assert a.place is Place.UNSCHEDULABLE
    bench.queue.move_all(ASSIGNED_POD_ADD)
    bench.fail(b, "S", pending=["P"])
    assert b.place is Place.ACTIVE
    assert (skip.count, queue.count) == (2, 1)


def test_a_predicate_does_not_hide_an_event_from_pods_in_flight() -> None:
    bench = Bench(hints=FIT)
    bench.add(make_pod("a"))
    a = bench.pop()
    bench.queue.move_all(NODE_ADD, predicate=lambda pod: False)
    bench.fail(a, "Fit")
    assert a.place is Place.BACKOFF


def test_a_refusal_after_done_is_retried_because_what_happened_since_is_not_known() -> None:
    bench = Bench(hints=FIT)
    bench.add(make_pod("a"))
    a = bench.pop()
    bench.queue.done("uid-a")
    bench.fail(a, "Fit")
    assert a.place is Place.BACKOFF


def test_an_update_of_a_pod_in_flight_counts_when_it_comes_back() -> None:
    hints = {"Taint": [on(Resource.POD, Action.UPDATE_POD_TOLERATION)]}
    bench = Bench(hints=hints)
    pod = make_pod("a")
    bench.add(pod)
    a = bench.pop()
    newer = changed(pod, tolerations=[Toleration(key="k")])
    bench.queue.update(pod, newer)
    assert len(bench.queue) == 0
    a.pod = newer
    bench.fail(a, "Taint")
    assert a.place is Place.BACKOFF


def test_only_events_that_concern_someone_are_kept_and_only_while_pods_are_in_flight() -> None:
    bench = Bench(hints=FIT)
    bench.add(make_pod("a"), make_pod("b"))
    bench.queue.move_all(NODE_ADD)
    bench.pop()
    bench.queue.move_all(NODE_ADD)
    bench.queue.move_all(ASSIGNED_POD_DELETE)
    bench.pop()
    bench.queue.move_all(NODE_ADD)
    assert bench.queue.in_flight_counts() == {"PodPopped": 2, "NodeAdd": 2}
    bench.queue.done("uid-a")
    assert bench.queue.in_flight_counts() == {"PodPopped": 1, "NodeAdd": 1}
    bench.queue.done("uid-b")
    bench.queue.done("uid-b")
    assert bench.queue.in_flight_counts() == {"PodPopped": 0}


class Something:
    """An object that can be watched disappearing."""


def test_events_are_forgotten_once_no_pod_in_flight_needs_them() -> None:
    bench = Bench(hints=FIT)
    bench.add(make_pod("a"), make_pod("b"))
    bench.pop()
    something = Something()
    alive = weakref.ref(something)
    bench.queue.move_all(NODE_ADD, None, something)
    bench.queue.move_all(NODE_ADD)  # the last one before a pop is kept, to know where the log goes on
    bench.pop()
    bench.queue.move_all(NODE_ADD)
    del something
    assert alive() is not None
    bench.queue.done("uid-a")
    assert alive() is None


def test_a_very_long_wait_in_flight_ends_well() -> None:
    bench = Bench(hints=FIT)
    bench.add(make_pod("a"))
    a = bench.pop()
    for _ in range(300_000):
        bench.queue.move_all(NODE_ADD)
    assert bench.queue.in_flight_counts()["NodeAdd"] == 300_000
    bench.fail(a)
    gc.collect()
    assert bench.places() == {"backoff": 1}


# ---- gates


class Gate:
    """A pre_enqueue that refuses the pods named, for the plugin given."""

    def __init__(self, **refused: str) -> None:
        self.refused = refused
        self.not_before: float | None = None
        self.asked = 0

    def __call__(self, pod: PodInfo) -> Status | None:
        self.asked += 1
        plugin = self.refused.get(pod.name)
        return unresolvable("gated", not_before=self.not_before).by(plugin) if plugin else None


def test_a_gated_pod_waits_for_the_events_of_its_gating_plugin_only() -> None:
    gate = Gate(a="Gate")
    bench = Bench(pre_enqueue=gate, hints={**FIT, "Gate": [on(Resource.POD, Action.ADD)]})
    bench.add(make_pod("a"))
    assert (bench.places(), bench.queue.pop()) == ({"gated": 1}, None)
    assert bench.observed == {("unschedulable", "UnschedulablePodAdd"): 1}
    bench.queue.move_all(NODE_ADD)
    assert gate.asked == 1
    bench.queue.move_all(ASSIGNED_POD_ADD)
    assert (gate.asked, bench.places()) == (2, {"gated": 1})
    gate.refused.clear()
    bench.queue.move_all(ASSIGNED_POD_ADD)
    assert (gate.asked, bench.places()) == (3, {"active": 1})
    queued = bench.pop()
    assert (queued.gated, queued.unschedulable_plugins) == (False, frozenset())


def test_scheduling_gates_are_lifted_by_an_update_of_the_pod() -> None:
    plugin = SchedulingGates(None, None)  # type: ignore[arg-type]

    def pre_enqueue(pod: PodInfo) -> Status | None:
        status = plugin.pre_enqueue(pod)
        return status.by(plugin.name) if status else None

    bench = Bench(pre_enqueue=pre_enqueue, hints={plugin.name: events_of(plugin)})
    two, one, none = (make_pod("a", gates=gates) for gates in (["x", "y"], ["x"], []))
    bench.add(two)
    bench.queue.update(two, one)
    assert bench.places() == {"gated": 1}
    bench.queue.update(one, none)
    assert bench.places() == {"active": 1}
    assert bench.observed["active", "UnschedulablePodUpdatePodSchedulingGatesEliminated"] == 1
    assert bench.pop().pod is none


def test_gates_hold_on_the_way_into_backoff_and_are_not_asked_again_on_the_way_out() -> None:
    gate = Gate()
    bench = Bench(pre_enqueue=gate, hints=FIT)
    bench.add(make_pod("a"))
    queued = bench.pop()
    bench.fail(queued)
    assert gate.asked == 2
    gate.refused["a"] = "Gate"
    bench.flush_at(1010)
    assert (gate.asked, bench.places()) == (2, {"active": 1})
    assert bench.pop() is queued
    bench.fail(queued)
    assert bench.places() == {"gated": 1}
    assert queued.unschedulable_plugins == {"Gate"}


def test_a_preemptor_is_let_in_through_the_events_of_its_other_rejectors() -> None:
    """DefaultPreemption gates a pod while its victims go, and its own hint always says skip."""
    gate = Gate(a="DefaultPreemption")
    hints = {
        "DefaultPreemption": [on(Resource.POD, Action.DELETE, Asked(Hint.SKIP))],
        "Fit": [on(Resource.POD, Action.DELETE), on(Resource.NODE, Action.ADD)],
    }
    bench = Bench(hints=hints, pre_enqueue=gate)
    gate.refused.clear()
    bench.add(make_pod("a"))
    queued = bench.pop()
    bench.queue.move_all(ASSIGNED_POD_DELETE)
    gate.refused["a"] = "DefaultPreemption"
    bench.fail(queued, "Fit")
    assert (bench.places(), queued.unschedulable_plugins) == ({"gated": 1}, {"Fit", "DefaultPreemption"})
    gate.refused.clear()
    bench.queue.move_all(NODE_ADD)
    assert bench.places() == {"gated": 1}
    bench.queue.move_all(ASSIGNED_POD_DELETE)
    assert bench.places() == {"backoff": 1}


def test_a_pod_that_another_plugin_gates_next_is_filed_under_that_one() -> None:
    gate = Gate(a="One", b="Two")
    bench = Bench(
        pre_enqueue=gate, hints={name: [on(Resource.NODE, Action.ADD)] for name in ("One", "Two", "Three")}
    )
    bench.add(make_pod("a"), make_pod("b"))
    gate.refused.update(a="Two")
    asked = gate.asked
    bench.queue.move_all(NODE_ADD)
    assert gate.asked == asked + 2  # each pod once, though one of them changed sides
    bench.queue.validate()
    assert bench.places() == {"gated": 2}


def test_a_refusal_at_the_gate_must_name_its_plugin() -> None:
    bench = Bench(pre_enqueue=lambda pod: unresolvable("no"))
    with pytest.raises(ValueError, match=r"pre_enqueue refused pod ns/a but names no plugin"):
        bench.queue.add(make_pod("a"))


# ---- pods that waited for too long


def test_after_five_minutes_a_pod_is_retried_at_the_next_thirty_second_look() -> None:
    bench = Bench(now=1000)
    bench.now = 1010
    queued = bench.refused(make_pod("a"), "X")
    assert bench.queue.next_wake(bench.now) == 1330
    bench.flush_at(1329.9)
    assert bench.places() == {"unschedulable": 1}
    bench.flush_at(1330)
    assert bench.places() == {"active": 1}
    assert queued.was_flushed
    assert bench.observed["active", "UnschedulableTimeout"] == 1
    bench.fail(bench.pop(), "X")
    assert not queued.was_flushed


def test_exactly_five_minutes_are_not_yet_too_long() -> None:
    bench = Bench(now=1000)
    bench.refused(make_pod("a"), "X")
    assert bench.queue.next_wake(bench.now) == 1330
    bench.flush_at(1300)
    assert bench.places() == {"unschedulable": 1}


@pytest.mark.parametrize("start", [0.1, 1_700_000_000.123456, 1_754_321_987.7])
@pytest.mark.parametrize("limit", [0.0, 0.1, 60.0, 300.0, 3600.0])
def test_waking_at_the_time_named_always_gets_something_done(start: float, limit: float) -> None:
    bench = Bench(now=start, max_in_unschedulable=limit, pre_enqueue=Gate(a="Gate"))
    bench.add(make_pod("a"))
    for _ in range(50):
        wake = bench.queue.next_wake(bench.now)
        assert wake is not None
        assert wake > bench.now
        asked = bench.observed["unschedulable", "UnschedulableTimeout"]
        bench.flush_at(wake)
        assert bench.observed["unschedulable", "UnschedulableTimeout"] == asked + 1


def test_the_timeout_asks_the_gate_again_and_keeps_the_timestamp() -> None:
    gate = Gate(a="Gate")
    bench = Bench(now=1000, pre_enqueue=gate)
    bench.add(make_pod("a"))
    bench.flush_at(1330)
    queued = bench.queue.get("ns/a")
    assert queued is not None
    assert (gate.asked, queued.timestamp, bench.places()) == (2, 1000, {"gated": 1})
    assert bench.queue.next_wake(bench.now) == 1660  # not at every look from now on
    bench.flush_at(1630)
    assert gate.asked == 2
    gate.refused.clear()
    bench.flush_at(1660)
    assert bench.places() == {"active": 1}


def test_a_timeout_also_counts_for_pods_in_flight() -> None:
    bench = Bench(now=1000)
    bench.refused(make_pod("a"), "X")
    bench.now = 1320
    bench.add(make_pod("b"))
    b = bench.pop()
    bench.flush_at(1330)
    bench.fail(b, "X")
    assert b.place is Place.BACKOFF


# ---- named times


def test_a_pod_refused_until_a_time_is_retried_at_that_time_exactly() -> None:
    bench = Bench(now=1000.25)
    bench.refused(make_pod("a"), "Quiet", not_before=1000.75)
    assert bench.queue.next_wake(bench.now) == 1000.75
    bench.flush_at(1000.7499)
    assert bench.places() == {"unschedulable": 1}
    bench.flush_at(1000.75)
    assert bench.places() == {"active": 1}  # although its backoff would last until 1002
    assert bench.observed["active", "NotBefore"] == 1
    assert bench.queue.next_wake(bench.now) is None


def test_an_event_wakes_such_a_pod_earlier_and_its_time_is_then_forgotten() -> None:
    bench = Bench(hints=FIT)
    bench.refused(make_pod("a"), "Fit", not_before=5000)
    bench.now += 3
    bench.queue.move_all(NODE_ADD)
    queued = bench.pop()
    bench.fail(queued, "Fit")
    assert bench.queue.next_wake(bench.now) == 1330


def test_the_earliest_of_several_times_comes_first_and_deleted_pods_name_none() -> None:
    bench = Bench()
    first, second = make_pod("a"), make_pod("b")
    bench.refused(second, "X", not_before=1100.5)
    bench.refused(first, "X", not_before=1100.25)
    assert bench.queue.next_wake(bench.now) == 1100.25
    bench.queue.delete(first)
    assert bench.queue.next_wake(bench.now) == 1100.5
    bench.queue.delete(second)
    assert bench.queue.next_wake(bench.now) is None


def test_a_gate_may_name_the_time_at_which_it_opens() -> None:
    gate = Gate(a="Window")
    gate.not_before = 1003.5
    bench = Bench(pre_enqueue=gate)
    bench.add(make_pod("a"))
    assert bench.queue.next_wake(bench.now) == 1003.5
    gate.not_before = 1004.5
    bench.flush_at(1003.5)
    assert bench.places() == {"gated": 1}
    assert bench.queue.next_wake(bench.now) == 1004.5
    gate.refused.clear()
    bench.flush_at(1004.5)
    assert bench.places() == {"active": 1}


def test_a_gate_that_names_no_time_leaves_the_one_that_an_attempt_named() -> None:
    gate = Gate()
    bench = Bench(pre_enqueue=gate, hints=FIT)
    bench.add(make_pod("a"))
    queued = bench.pop()
    bench.queue.move_all(NODE_ADD)
    gate.refused["a"] = "Gate"
    bench.fail(queued, "Fit", not_before=1007.5)
    assert (bench.places(), bench.queue.next_wake(bench.now)) == ({"gated": 1}, 1007.5)
    bench.flush_at(1007.5)
    assert (bench.places(), bench.queue.next_wake(bench.now)) == ({"gated": 1}, 1330)


def test_a_time_that_has_passed_means_the_next_second() -> None:
    bench = Bench(now=1000.25)
    bench.refused(make_pod("a"), "X", not_before=999)
    assert bench.queue.next_wake(bench.now) == 1001
    bench.flush_at(1001)
    assert bench.places() == {"active": 1}


def test_an_error_backs_off_whatever_time_was_named() -> None:
    bench = Bench()
    bench.add(make_pod("a"))
    queued = bench.pop()
    bench.fail(queued, not_before=5000)
    assert (queued.place, queued.not_before) == (Place.ERROR_BACKOFF, None)
    assert bench.queue.next_wake(bench.now) == 1002


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
    bench = Bench(hints={"X": [on(Resource.POD, Action.UPDATE)]})
    old, new = make_pod("a", uid="1"), make_pod("a", uid="2")
    queued = bench.refused(old, "X")
    bench.queue.update(old, new)
    bench.queue.validate()
    assert bench.pop() is queued
    assert (queued.pod.uid, queued.attempts, queued.unschedulable_count) == ("2", 2, 1)


def test_a_waiting_pod_created_anew_for_another_profile_waits_for_that_ones_events() -> None:
    bench = Bench(hints=FIT)
    old, new = make_pod("a", uid="1"), make_pod("a", uid="2", profile="other")
    bench.refused(old, "Fit")
    bench.queue.update(old, new)
    bench.queue.validate()
    assert bench.places() == {"backoff": 1}  # nothing is known of that profile, so it is retried


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
    bench = Bench(hints={"Taint": [on(Resource.POD, Action.UPDATE_POD_TOLERATION, hint)]})
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
    from mooring.core.queue import SchedulingQueue
    from mooring.plugins.priority_sort import PrioritySort

    queue = SchedulingQueue(
        PrioritySort.sort_key,
        clock=lambda: 1000.0,
        pre_enqueue={"other": lambda pod: unresolvable("no").by("Gate")},
        hints={PROFILE: FIT, "other": {"Fit": [on(Resource.POD, Action.ADD)]}},
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
    hints: dict[str, list[EventHint]] = {**FIT, "Affinity": [on(Resource.POD, Action.ADD, asked)]}
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
