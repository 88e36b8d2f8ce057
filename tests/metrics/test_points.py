"""Extension points: how each of them ended, and that those which did not run are not counted."""

from __future__ import annotations

import pytest

from mooring.testing import make_node, make_pod
from tests.metrics.kit import Observed, Wishes, wishing

BEFORE = {"PreEnqueue/Success": 1, "PreFilter/Success": 1, "Filter/Success": 1}
SCORED = BEFORE | {"PreScore/Success": 1, "Score/Success": 1}
BOUND = {"PreBind/Success": 1, "Bind/Success": 1, "PostBind/Success": 1}
RESERVED = {"Reserve/Success": 1, "Permit/Success": 1}


def test_a_pod_that_is_bound_passes_them_all() -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(make_pod("one"))
    assert observed.points() == SCORED | RESERVED | BOUND


def test_with_one_node_to_take_nothing_is_scored() -> None:
    observed = Observed(nodes=1, plugins=[Wishes])
    observed.schedule(make_pod("one"))
    assert observed.points() == BEFORE | RESERVED | BOUND


@pytest.mark.parametrize(
    ("wishes", "points"),
    [
        (
            {"preFilter": "refuse"},
            {"PreEnqueue/Success": 1, "PreFilter/Unschedulable": 1, "PostFilter/Unschedulable": 1},
        ),
        ({"preFilter": "fail"}, {"PreEnqueue/Success": 1, "PreFilter/Error": 1}),
        ({"filter": "refuse"}, BEFORE | {"PostFilter/Unschedulable": 1}),
        ({"filter": "raise"}, {"PreEnqueue/Success": 1, "PreFilter/Success": 1, "Filter/Error": 1}),
        ({"preScore": "fail"}, BEFORE | {"PreScore/Error": 1}),
        ({"score": "raise"}, BEFORE | {"PreScore/Success": 1, "Score/Error": 1}),
        ({"reserve": "refuse"}, SCORED | {"Reserve/Unschedulable": 1, "Unreserve/Success": 1}),
        ({"reserve": "fail"}, SCORED | {"Reserve/Error": 1, "Unreserve/Success": 1}),
        (
            {"permit": "refuse"},
            SCORED | {"Reserve/Success": 1, "Permit/Unschedulable": 1, "Unreserve/Success": 1},
        ),
        ({"permit": "raise"}, SCORED | {"Reserve/Success": 1, "Permit/Error": 1, "Unreserve/Success": 1}),
        ({"preBind": "fail"}, SCORED | RESERVED | {"PreBind/Error": 1, "Unreserve/Success": 1}),
    ],
    ids=str,
)
def test_where_an_attempt_ends_early_the_last_point_has_its_status(
    wishes: dict[str, str], points: dict[str, float]
) -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(make_pod("one", **wishing(**wishes)))
    told = observed.points()
    assert told.pop("PreEnqueue/Success") >= 1  # once more where the pod came back
    assert told == {point: count for point, count in points.items() if point != "PreEnqueue/Success"}


def test_a_binding_that_the_cluster_refuses() -> None:
    observed = Observed()
    pod = make_pod("gone")
    observed.cluster.apply(pod)
    observed.scheduler.schedule_one()
    del observed.cluster._memory.pods[pod.uid]
    observed.cluster._memory.carry_out(observed.scheduler.take_effects())
    told = observed.points()
    assert told["PreBind/Success"] == told["Bind/Error"] == 1
    assert "PostBind/Success" not in told


def test_refused_by_pre_enqueue() -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(make_pod("one", **wishing(preEnqueue="refuse")))
    assert observed.points() == {"PreEnqueue/Unschedulable": 1}


def test_a_pod_that_waits_for_permission_and_gets_it() -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(make_pod("one", **wishing(permit="wait")))
    told = SCORED | {"Reserve/Success": 1, "Permit/Wait": 1}
    assert observed.points() == told
    assert observed.values("permit_wait_duration_seconds_count") == {}
    observed.cluster.advance(5)
    (held,) = observed.scheduler.waiting
    held.allow("Wishes")
    observed.cluster._memory.carry_out(observed.scheduler.take_effects())
    assert observed.points() == told | BOUND
    assert observed.value("permit_wait_duration_seconds_sum", result="Success") == 5
    assert observed.values("schedule_attempts_total", profile="default-scheduler") == {"scheduled": 1}
    assert observed.value("scheduling_algorithm_duration_seconds_count") == 1


def test_a_pod_that_waits_for_permission_in_vain() -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(make_pod("one", **wishing(permit="wait")))
    observed.cluster.advance(30)
    assert observed.value("permit_wait_duration_seconds_sum", result="Unschedulable") == 30
    assert observed.points()["Unreserve/Success"] == 1
    attempts = observed.values("schedule_attempts_total", profile="default-scheduler")
    assert attempts["unschedulable"] >= 1
    assert "scheduled" not in attempts


def test_no_nodes_no_points() -> None:
    observed = Observed(nodes=0)
    observed.schedule(make_pod("one"))
    assert observed.points() == {"PreEnqueue/Success": 2}  # on its way in, and into the backoff queue
    assert observed.value("scheduling_algorithm_duration_seconds_count") == 1


def test_preemption_is_counted_when_tried_and_its_victims_when_chosen() -> None:
    observed = Observed([make_node("a", cpu="1")])
    observed.schedule(*(make_pod(f"low-{i}", requests={"cpu": "500m"}) for i in range(2)))
    too_big = make_pod("too-big", requests={"cpu": "2"}, priority=10)
    observed.schedule(too_big)
    assert observed.value("preemption_attempts_total") == 1
    assert observed.value("preemption_victims_count") == 0
    observed.cluster.delete(too_big)
    observed.schedule(make_pod("urgent", requests={"cpu": "1"}, priority=10))
    assert observed.value("preemption_attempts_total") == 2
    assert observed.value("preemption_victims_count") == 1
    assert observed.value("preemption_victims_sum") == 2
    assert observed.values("preemption_goroutines_execution_total") == {"success": 1}
    assert observed.value("preemption_goroutines_duration_seconds_count", result="success") == 1


def test_a_preemption_whose_victim_could_not_be_evicted() -> None:
    observed = Observed([make_node("a", cpu="1")])
    observed.schedule(make_pod("low", requests={"cpu": "1"}))
    urgent = make_pod("urgent", requests={"cpu": "1"}, priority=10)
    observed.cluster.apply(urgent)
    observed.scheduler.schedule_one()
    observed.scheduler.take_effects()  # and do nothing about them
    preemptor = observed.scheduler.intake.pod(urgent.uid)
    assert preemptor is not None
    observed.scheduler.evictions.failed(preemptor)
    assert observed.values("preemption_goroutines_execution_total") == {"error": 1}


def test_a_preemptor_that_goes_away_ends_nothing() -> None:
    observed = Observed([make_node("a", cpu="1")])
    low, urgent = (
        make_pod("low", requests={"cpu": "1"}),
        make_pod("urgent", requests={"cpu": "1"}, priority=10),
    )
    observed.schedule(low)
    observed.cluster.apply(urgent)
    observed.scheduler.schedule_one()
    observed.scheduler.take_effects()
    observed.cluster.delete(urgent)
    observed.cluster.delete(low)
    assert observed.values("preemption_goroutines_execution_total") == {}
