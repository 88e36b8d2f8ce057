"""What brings refused pods back, from the queue or from the middle of an attempt."""

from __future__ import annotations

import gc
import weakref

import pytest

from mooring.api.objects import Toleration
from mooring.core.event_map import (
    ANY_EVENT,
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
)
from mooring.core.queue import Place
from mooring.framework.events import Action, Hint, Resource, requeue_on
from mooring.framework.pod import PodInfo
from tests.core.queue_kit import FIT, NODE_ANNOTATION, NODE_TAINT, Asked, Bench, changed, make_pod

# ---- events


def test_a_refused_pod_waits_for_an_event_that_its_plugin_registered() -> None:
    hint = Asked()
    bench = Bench(
        hints={
            "Fit": [requeue_on(Resource.NODE, Action.ADD, hint)],
            "Other": [requeue_on(Resource.POD, Action.ADD)],
        }
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
    bench = Bench(hints={"Fit": [requeue_on(Resource.NODE, Action.ADD, hint)]})
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

    bench = Bench(hints={"Fit": [requeue_on(Resource.NODE, Action.ADD, hint)]})
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
        name: [requeue_on(Resource.NODE, Action.ADD, Asked(Hint.SKIP if name in skipping else Hint.QUEUE))]
        for name in "FP"
    }
    bench = Bench(hints=hints)
    bench.refused(make_pod("a"), "F", pending=pending)
    bench.queue.move_all(NODE_ADD)
    assert bench.places() == {place: 1}


def test_unconditional_registrations_need_no_hint() -> None:
    asked = Asked(Hint.SKIP)
    hints = {
        "F": [requeue_on(Resource.NODE, Action.ADD)],
        "G": [requeue_on(Resource.NODE, Action.ADD, asked)],
    }
    bench = Bench(hints=hints)
    bench.refused(make_pod("a"), "F", "G")
    bench.refused(make_pod("b"), pending=["F"])
    bench.queue.move_all(NODE_ADD)
    assert (bench.places(), asked.count) == ({"backoff": 1, "active": 1}, 0)


def test_a_plugin_that_waits_for_nodes_is_woken_by_taint_changes_whatever_its_hint_says() -> None:
    bench = Bench(hints={"Fit": [requeue_on(Resource.NODE, Action.ADD, Asked(Hint.SKIP))]})
    bench.refused(make_pod("a"), "Fit")
    bench.queue.move_all(NODE_TAINT)
    assert bench.places() == {"backoff": 1}


def test_the_plain_update_event_wakes_only_who_registered_for_all_updates() -> None:
    hints = {
        "Label": [requeue_on(Resource.POD, Action.UPDATE_POD_LABEL)],
        "All": [requeue_on(Resource.POD, Action.UPDATE)],
    }
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
    bench = Bench(hints={"Fit": [requeue_on(Resource.NODE, Action.ADD, Asked())], "X": []})
    queued = bench.refused(make_pod("a"), "Fit", "X")
    assert bench.queue.awaited(queued) == {"Fit": [NODE_ADD, NODE_TAINT], "X": []}
    assert bench.queue.backoff_ends(queued) == 1002
    assert repr(queued).count("['Fit', 'X']") == 1


# ---- pods in flight


def test_a_relevant_event_during_the_attempt_saves_the_pod_from_waiting() -> None:
    bench = Bench(hints={**FIT, "X": [requeue_on(Resource.POD, Action.ADD)]})
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
        hints={
            "S": [requeue_on(Resource.NODE, Action.ADD, skip)],
            "P": [requeue_on(Resource.POD, Action.ADD, queue)],
        }
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
    hints = {"Taint": [requeue_on(Resource.POD, Action.UPDATE_POD_TOLERATION)]}
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
