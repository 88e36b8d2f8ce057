"""Attempts and pods: how many, with what result, how long."""

from __future__ import annotations

import pytest

from mooring.config import from_object
from mooring.framework import (
    Action,
    CycleState,
    EventHint,
    Plugin,
    PodInfo,
    Resource,
    Status,
    requeue_on,
    unschedulable,
)
from mooring.framework.nodes import NodeInfo
from mooring.testing import make_node, make_pod
from tests.metrics.kit import TICK, Observed, Wishes, wishing

PROFILE = "default-scheduler"


def test_attempts_are_counted_by_result_and_profile() -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(make_pod("one"), make_pod("two"))
    observed.schedule(make_pod("big", requests={"cpu": "1000"}))
    observed.schedule(make_pod("broken", **wishing(filter="raise")))
    attempts = observed.values("schedule_attempts_total", profile=PROFILE)
    assert attempts == {"scheduled": 2, "unschedulable": 1, "error": 1}
    durations = observed.values("scheduling_attempt_duration_seconds_count", profile=PROFILE)
    assert durations == attempts
    assert observed.value("scheduling_algorithm_duration_seconds_count") == 4


def test_a_failed_binding_is_an_attempt_in_error_and_no_pod_scheduled() -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(make_pod("unlucky", **wishing(preBind="fail")))
    assert observed.values("schedule_attempts_total", profile=PROFILE) == {"error": 1}
    assert observed.value("pod_scheduling_attempts_count") == 0
    assert observed.values("pod_scheduling_sli_duration_seconds_count") == {}


def test_profiles_are_told_apart() -> None:
    config = from_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "batch"}],
        }
    )
    observed = Observed(config=config)
    observed.schedule(make_pod("one"), make_pod("two", scheduler_name="batch"), make_pod("three"))
    assert observed.values("schedule_attempts_total", result="scheduled") == {PROFILE: 2, "batch": 1}


def test_an_attempt_lasts_from_its_start_to_the_end_of_its_binding() -> None:
    """The timer moves on by a tick whenever it is looked at, so the looks in between can be counted."""
    observed = Observed(sample_every=1_000_000)
    observed.schedule(make_pod("one"))
    points = observed.points("sum")
    assert points.pop("PreEnqueue/Success") == pytest.approx(TICK)
    # Within Bind, the event of the bound pod is timed, too: two more looks.
    assert points.pop("Bind/Success") == pytest.approx(3 * TICK)
    assert points == {f"{name}/Success": pytest.approx(TICK) for name in LAPS}
    assert observed.value("scheduling_algorithm_duration_seconds_sum") == pytest.approx(4 * TICK)
    # All of that, and the way from Permit to PreBind.
    attempt = observed.value("scheduling_attempt_duration_seconds_sum", result="scheduled", profile=PROFILE)
    assert attempt == pytest.approx((len(LAPS) + 3 + 1) * TICK)


LAPS = ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "PostBind")


def test_durations_fall_into_the_buckets_that_hold_them() -> None:
    observed = Observed(sample_every=1_000_000)
    observed.schedule(make_pod("one"))
    name = "scheduling_attempt_duration_seconds_bucket"
    counts = observed.values(name, result="scheduled", profile=PROFILE)
    assert counts["0.008"] == 0
    assert counts["0.016"] == counts["+Inf"] == 1


class Stubborn(Plugin):
    """Refuses every node until it was asked often enough; a node's new label is worth another try."""

    name = "Stubborn"
    patience = 0

    def events_to_register(self) -> list[EventHint]:
        return [requeue_on(Resource.NODE, Action.UPDATE_NODE_LABEL)]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        Stubborn.patience -= 1
        return unschedulable("no") if Stubborn.patience >= 0 else None


@pytest.mark.parametrize(("failures", "label"), [(0, "1"), (2, "3"), (14, "15+"), (17, "15+")])
def test_pods_are_timed_from_when_they_were_first_active_by_the_number_of_attempts(
    failures: int, label: str
) -> None:
    Stubborn.patience = failures
    observed = Observed(nodes=1, plugins=[Stubborn])
    observed.schedule(make_pod("one"))
    for i in range(failures):
        observed.cluster.advance(11)
        observed.cluster.apply(make_node("node-0", labels={"try": str(i)}))
        observed.cluster.schedule()
    assert observed.cluster.node_of("one") == "node-0"
    assert observed.value("pod_scheduling_attempts_sum") == failures + 1
    assert observed.values("pod_scheduling_sli_duration_seconds_count") == {label: 1}
    assert observed.value("pod_scheduling_sli_duration_seconds_sum", attempts=label) == 11 * failures
    assert observed.values("schedule_attempts_total", result="unschedulable") == (
        {PROFILE: failures} if failures else {}
    )


def test_a_pod_that_only_a_timeout_brought_back_is_counted() -> None:
    Stubborn.patience = 1
    observed = Observed(nodes=1, plugins=[Stubborn])
    observed.schedule(make_pod("one"), make_pod("two"))
    assert observed.value("pod_scheduled_after_flush_total") == 0
    observed.cluster.advance(400)
    assert observed.cluster.node_of("one") == "node-0"
    assert observed.value("pod_scheduled_after_flush_total") == 1


def test_the_longest_wait_in_the_pool_can_be_set() -> None:
    Stubborn.patience = 1
    observed = Observed(nodes=1, plugins=[Stubborn])
    other = Observed(nodes=1, plugins=[Stubborn], max_wait=60)
    other.schedule(make_pod("one"))
    other.cluster.advance(100)
    assert other.cluster.node_of("one") == "node-0"
    Stubborn.patience = 1
    observed.schedule(make_pod("one"))
    observed.cluster.advance(100)
    assert observed.cluster.node_of("one") == ""


def test_what_a_test_of_the_algorithm_costs_is_no_attempt() -> None:
    """`rehearse` answers a person's question; it must not look like scheduling."""
    observed = Observed()
    observed.schedule(make_pod("one"))
    before = observed.points()
    info = observed.scheduler.intake.pod(make_pod("one").uid)
    assert info is not None
    observed.scheduler.rehearse(info)
    assert observed.points() == before
