"""Pods kept out by gates, and pods that come back at a time rather than after an event."""

from __future__ import annotations

import pytest

from mooring.core.event_map import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    events_of,
)
from mooring.core.queue import Place
from mooring.framework.events import Action, Hint, Resource, requeue_on
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, unresolvable
from mooring.plugins.scheduling_gates import SchedulingGates
from tests.core.queue_kit import FIT, Asked, Bench, Gate, make_pod

# ---- gates


def test_a_gated_pod_waits_for_the_events_of_its_gating_plugin_only() -> None:
    gate = Gate(a="Gate")
    bench = Bench(pre_enqueue=gate, hints={**FIT, "Gate": [requeue_on(Resource.POD, Action.ADD)]})
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
        "DefaultPreemption": [requeue_on(Resource.POD, Action.DELETE, Asked(Hint.SKIP))],
        "Fit": [requeue_on(Resource.POD, Action.DELETE), requeue_on(Resource.NODE, Action.ADD)],
    }
    bench = Bench(hints=hints, pre_enqueue=gate)
    gate.refused.clear()
    bench.add(make_pod("a"))
    queued = bench.pop()
    bench.queue.move_all(ASSIGNED_POD_DELETE)
    gate.refused["a"] = "DefaultPreemption"
    bench.fail(queued, "Fit")
    assert bench.places() == {"gated": 1}
    assert queued.unschedulable_plugins == {"Fit", "DefaultPreemption"}
    gate.refused.clear()
    bench.queue.move_all(NODE_ADD)
    assert bench.places() == {"gated": 1}
    bench.queue.move_all(ASSIGNED_POD_DELETE)
    assert bench.places() == {"backoff": 1}


def test_a_pod_that_another_plugin_gates_next_is_filed_under_that_one() -> None:
    gate = Gate(a="One", b="Two")
    bench = Bench(
        pre_enqueue=gate,
        hints={name: [requeue_on(Resource.NODE, Action.ADD)] for name in ("One", "Two", "Three")},
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
    with pytest.raises(ValueError, match="pre_enqueue refused pod ns/a without naming the plugin"):
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


@pytest.mark.parametrize(
    ("start", "now", "limit"),
    [
        (26.80544406783759, 86.80544406783758, 0.0),
        (96.86502294124902, 486.86502294124904, 60.0),
        (77.7681411298603, 3857.7681411298604, 300.0),
    ],
)
def test_rounding_does_not_make_a_look_come_too_early(start: float, now: float, limit: float) -> None:
    bench = Bench(now=start, max_in_unschedulable=limit)
    bench.now = now
    bench.refused(make_pod("a"), "X")
    wake = bench.queue.next_wake(now)
    assert wake is not None
    assert wake > now + limit


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
