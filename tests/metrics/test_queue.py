"""The queue, the cache and the events, as the metrics see them."""

from __future__ import annotations

import pytest

from mooring.framework import Hint
from mooring.metrics.scheduler_metrics import PENDING
from mooring.testing import make_node, make_pod
from tests.metrics.kit import TICK, Observed, Wishes, wishing

PROFILE = "default-scheduler"


def test_pending_pods_by_queue() -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(
        make_pod("big", requests={"cpu": "1000"}),
        make_pod("gated", scheduling_gates="soon"),
        make_pod("broken", **wishing(filter="raise")),
    )
    observed.cluster.apply(make_pod("one"), make_pod("two"))
    told = observed.values("pending_pods")
    assert told == {"active": 2, "backoff": 1, "unschedulable": 1, "gated": 1}


def test_pods_on_their_way_into_queues_by_the_event_that_brought_them() -> None:
    observed = Observed(nodes=1)
    observed.schedule(
        make_pod("one"), make_pod("big", requests={"cpu": "8"}), make_pod("gated", scheduling_gates="x")
    )
    observed.cluster.advance(5)
    observed.cluster.apply(make_node("large", cpu="16"))
    assert observed.values("queue_incoming_pods_total", queue="active") == {
        "UnschedulablePodAdd": 2,
        "NodeAdd": 1,
    }
    assert observed.values("queue_incoming_pods_total", queue="unschedulable") == {
        "UnschedulablePodAdd": 1,
        "ScheduleAttemptFailure": 1,
    }


def test_refused_pods_count_for_each_plugin_that_refused_them_until_they_are_tried_again() -> None:
    nodes = [make_node("full", cpu="1"), make_node("tainted", cpu="64", taints="for=others:NoSchedule")]
    observed = Observed(nodes, plugins=[Wishes])
    big = make_pod("big", requests={"cpu": "8"})
    observed.schedule(
        big, make_pod("bigger", requests={"cpu": "9"}), make_pod("gated", scheduling_gates="soon")
    )
    observed.schedule(make_pod("broken", **wishing(filter="raise")))
    refused = {"NodeResourcesFit": 2, "TaintToleration": 2, "SchedulingGates": 1}
    assert observed.values("unschedulable_pods", profile=PROFILE) == refused
    observed.cluster.advance(5)
    observed.cluster.apply(make_node("large", cpu="16"))  # both are active now, and not tried yet
    assert observed.values("unschedulable_pods", profile=PROFILE) == refused
    observed.cluster.delete(big)
    observed.cluster.schedule()
    assert observed.cluster.node_of("bigger") == "large"
    assert observed.values("unschedulable_pods", profile=PROFILE) == {"SchedulingGates": 1}


def test_what_the_cache_holds() -> None:
    observed = Observed(nodes=3, plugins=[Wishes])
    observed.schedule(make_pod("one"), make_pod("held", **wishing(permit="wait")))
    observed.cluster.apply(make_pod("not-ours", node_name="node-0"))
    assert observed.values("cache_size") == {"nodes": 3, "pods": 3, "assumed_pods": 1}
    assert observed.values("goroutines") == {"binding": 1}


def test_events_that_happen_while_a_pod_is_in_flight() -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(make_pod("held", **wishing(permit="wait")))
    observed.cluster.apply(make_node("another"))
    assert observed.values("inflight_events") == {"PodPopped": 1, "NodeAdd": 1}
    (held,) = observed.scheduler.waiting
    held.allow("Wishes")
    observed.cluster.schedule()
    assert observed.values("inflight_events") == {"PodPopped": 0, "NodeAdd": 0}


def test_events_are_timed_by_what_they_amounted_to() -> None:
    observed = Observed(nodes=1, sample_every=1_000_000)
    observed.schedule(make_pod("one"))
    observed.cluster.apply(make_node("node-0", labels={"new": "label"}))
    observed.cluster.apply(make_node("node-0", labels={"new": "label"}))  # nothing that anybody can see
    observed.cluster.delete(make_pod("one", node_name="node-0"))
    observed.cluster.delete(make_node("node-0"))
    assert observed.values("event_handling_duration_seconds_count") == {
        "NodeAdd": 1,
        "UnschedulablePodAdd": 1,
        "UnschedulablePodDelete": 1,  # bound, it is pending no more
        "AssignedPodAdd": 1,
        "NodeUpdateNodeLabel": 1,
        "AssignedPodDelete": 1,
        "NodeDelete": 1,
    }
    name = "event_handling_duration_seconds_sum"
    assert observed.value(name, event="NodeAdd") == pytest.approx(TICK)
    assert observed.value(name, event="UnschedulablePodAdd") == pytest.approx(3 * TICK)  # PreEnqueue within


def test_hints_are_timed_by_their_answer() -> None:
    observed = Observed(nodes=1)
    observed.schedule(make_pod("big", requests={"cpu": "8"}))
    observed.cluster.apply(make_node("small", cpu="2"), make_node("large", cpu="16"))
    told = observed.values(
        "queueing_hint_execution_duration_seconds_count", plugin="NodeResourcesFit", event="NodeAdd"
    )
    assert told == {Hint.SKIP.value: 1, Hint.QUEUE.value: 1}


def test_nothing_grows_while_nobody_scrapes() -> None:
    """A standby handles events for days without an attempt, and nobody need ask for its metrics."""
    observed = Observed(nodes=1)
    for i in range(3 * PENDING):
        observed.cluster.apply(make_node("node-0", labels={"version": str(i)}))
    assert len(observed.metrics._handled) < PENDING
    name = "event_handling_duration_seconds_count"
    assert observed.value(name, event="NodeUpdateNodeLabel") == 3 * PENDING


def test_observing_changes_no_decision() -> None:
    def story(observed: bool) -> list[tuple[str, str, str]]:
        world = Observed(nodes=5, sample_every=2, observe=observed)
        for i in range(30):
            world.schedule(make_pod(f"pod-{i}", requests={"cpu": f"{900 * (i % 4)}m"}, priority=i % 3))
        world.cluster.advance(60)
        return [(d.pod, d.result, d.node) for d in world.cluster.decisions]

    seen = story(True)
    assert seen == story(False)
    assert {result for _, result, _ in seen} == {"scheduled", "unschedulable"}
