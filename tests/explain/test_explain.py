"""What a scheduler says about a pod in each of the places where a pod can be."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mooring.api.meta import Condition
from mooring.api.objects import Pod
from mooring.api.times import format_time
from mooring.explain.explain import decisions, explain_objects, recent
from mooring.explain.explanation import Explanation
from mooring.explain.log import DecisionLog
from mooring.framework.events import Action, EventHint, Resource, requeue_on
from mooring.framework.plugin import Plugin
from mooring.framework.status import Status, unschedulable, wait
from mooring.testing import make_node, make_pod
from mooring.testing.clock import START
from tests.explain.kit import Setting


def about(setting: Setting, name: str = "web") -> Explanation:
    log = setting.scheduler.log
    assert log is None or isinstance(log, DecisionLog)
    found = decisions(setting.scheduler, log, "default", name)
    assert found is not None
    return found


def waiting(setting: Setting, name: str = "web") -> Any:
    found = about(setting, name).waiting
    assert found is not None
    return found


# ---- pods with a node


def test_a_pod_with_a_node_and_why_it_is_there() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("small"), make_node("large", cpu="8"), make_pod("web", requests={"cpu": "2"}))
    found = about(setting)
    assert (found.state, found.node, found.waiting, found.now) == ("scheduled", "large", None, None)
    assert found.summary.startswith("default/web is on large: best of 2 that fit, score ")
    assert "ahead of small (NodeResourcesFit +" in found.summary
    [attempt] = found.attempts
    assert (attempt.first, attempt.count) == (format_time(START), 1)


def test_a_pod_that_came_otherwise_is_not_accounted_for() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a"), make_pod("web", node_name="a"))
    found = about(setting)
    assert (found.state, found.node) == ("scheduled", "a")
    assert "the attempt is not recorded" in found.summary


class Gang(Plugin):
    name = "Gang"

    def permit(self, state: Any, pod: Any, node_name: str) -> Status:
        return wait(30, "2 of 3 are here")


def test_a_pod_that_waits_for_permission() -> None:
    setting = Setting(DecisionLog(), Gang)
    setting.apply(make_node("a"), make_pod("web"))
    found = about(setting)
    assert (found.state, found.node) == ("waiting", "a")
    assert found.summary == (
        "default/web has a and waits there for permission from Gang (2 of 3 are here) "
        f"until {format_time(START + 30)}"
    )
    assert found.waiting is not None
    assert (found.waiting.queue, found.waiting.until) == ("permit", format_time(START + 30))


def test_a_pod_that_is_being_bound() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a"))
    setting.scheduler.apply(make_pod("web"))
    setting.scheduler.schedule_one()
    found = about(setting)
    assert (found.state, found.node, found.summary) == ("binding", "a", "default/web is being bound to a")


# ---- pending pods


def test_a_pod_that_nobody_tried_yet() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a"), make_node("b"))
    setting.cluster.apply(make_pod("web"))
    found = about(setting)
    assert (found.state, waiting(setting).queue) == ("pending", "active")
    assert found.summary.startswith("default/web is pending: 2 of 2 nodes would take it now, ")
    assert found.summary.endswith("it was not tried yet")


def test_a_refused_pod_and_what_would_wake_it() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a", cpu="1"), make_pod("web", requests={"cpu": "2"}))
    setting.clock.advance(40)
    found = about(setting)
    held = waiting(setting)
    assert (held.queue, held.attempts) == ("unschedulable", 1)
    assert (held.since, held.last_attempt) == (format_time(START), format_time(START))
    assert held.refused_by == ["NodeResourcesFit"]
    assert [(each.resource, each.text, each.plugins) for each in held.events] == [
        ("Pod", "a pod is deleted, or its requests change", ["NodeResourcesFit"]),
        ("Node", "a node is added, or its allocatable resources or taints change", ["NodeResourcesFit"]),
        ("resource.k8s.io/DeviceClass", "a DeviceClass is added or changes", ["NodeResourcesFit"]),
    ]
    assert found.now is not None
    assert found.now.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert "none of" not in found.summary
    assert "the only node does not fit; what would help on 1 node: request at most 1 cpu" in found.summary


def test_a_pod_in_backoff_and_until_when() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a", cpu="1"), make_pod("web", requests={"cpu": "2"}))
    setting.cluster.apply(make_node("b"))
    held = waiting(setting)
    assert (held.queue, held.until) == ("backoff", format_time(START + 2))
    then = format_time(START + 2)
    assert about(setting).summary.endswith(f"b best; it is in backoff and tried again at {then}")


class Later(Plugin):
    name = "Later"

    def filter(self, state: Any, pod: Any, node: Any) -> Status:
        return unschedulable("not today", not_before=START + 86400)

    def events_to_register(self) -> list[EventHint]:
        return [requeue_on(Resource.NODE, Action.UPDATE_NODE_LABEL)]


def test_a_pod_that_is_not_to_be_tried_before_a_time() -> None:
    setting = Setting(DecisionLog(), Later)
    setting.apply(make_node("a"), make_pod("web"))
    held = waiting(setting)
    assert (held.queue, held.until) == ("unschedulable", format_time(START + 86400))
    assert [each.text for each in held.events] == ["a node's labels change"]


def test_a_gated_pod_by_whom_and_what_then() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a"), make_pod("web", scheduling_gates="example.com/quota"))
    found = about(setting)
    assert found.state == "gated"
    assert found.summary == (
        "default/web is held back by SchedulingGates: waiting for scheduling gates: [example.com/quota]; "
        "without that 1 of 1 node would take it now, a best"
    )


def test_a_pod_that_waits_for_its_victims_to_end() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a"))
    victim = make_pod("low", node_name="a", requests={"cpu": "3"}, priority=1)
    setting.apply(victim)
    setting.scheduler.apply(make_pod("web", requests={"cpu": "2"}, priority=10))
    setting.scheduler.schedule_one()  # the eviction is not carried out yet
    found = about(setting)
    assert found.summary == "default/web is promised a and waits there for default/low to end"
    assert (waiting(setting).nominated_node, waiting(setting).victims) == ("a", ["default/low"])


def test_a_pod_of_somebody_elses_profile_is_unknown() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a"), make_pod("web", scheduler_name="other"))
    assert decisions(setting.scheduler, None, "default", "web") is None


def test_no_nodes_at_all() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_pod("web"))
    assert about(setting).summary == "default/web is pending: there are no nodes"


# ---- pods that are gone


def test_a_pod_that_is_gone_is_told_from_its_attempts() -> None:
    setting = Setting(DecisionLog())
    pod = make_pod("web", requests={"cpu": "2"})
    setting.apply(make_node("a", cpu="1"), pod)
    setting.cluster.delete(pod)
    found = about(setting)
    assert (found.state, found.now) == ("gone", None)
    assert found.summary.startswith(
        "default/web is gone; in the last attempt it was unschedulable: 0/1 nodes"
    )
    assert decisions(setting.scheduler, None, "default", "web") is None


def test_attempts_at_a_pod_of_the_same_name_are_not_this_ones() -> None:
    setting = Setting(DecisionLog())
    pod = make_pod("web", requests={"cpu": "2"}, uid="1")
    setting.apply(make_node("a", cpu="1"), pod)
    setting.cluster.delete(pod)
    setting.cluster.apply(make_pod("web", uid="2"))
    assert about(setting).attempts == []


# ---- explained by a scheduler that was given objects


def explained(pod: Pod, *objects: Any) -> Explanation:
    setting = Setting(None)
    for obj in objects:
        setting.scheduler.apply(obj)
    return explain_objects(setting.scheduler, pod, "worked out by a test")


def test_a_placed_pod_is_told_where_it_would_go_today() -> None:
    pod = make_pod("web", node_name="a", requests={"cpu": "2"})
    found = explained(pod, make_node("a"), make_node("b", cpu="8"))
    assert (found.state, found.node, found.waiting) == ("scheduled", "a", None)
    assert found.summary == (
        "default/web is on a; if it were scheduled again, 2 of 2 nodes would take it now, b best"
    )


def test_pods_that_are_not_scheduled_any_more() -> None:
    done = explained(make_pod("web", node_name="a", phase="Succeeded"), make_node("a"))
    assert (done.state, done.summary) == ("finished", "default/web is Completed: it ran to its end on a")
    broken = explained(make_pod("web", node_name="a", phase="Failed"), make_node("a"))
    assert broken.summary == "default/web is Failed: its containers ended with an error on a"
    leaving = explained(make_pod("web", terminating=True), make_node("a"))
    assert leaving.state == "terminating"


def test_a_pod_for_another_scheduler_is_said_to_be() -> None:
    pod = make_pod("web", scheduler_name="other")
    assert explained(pod, make_node("a"), pod).summary == (
        'default/web is pending: no profile here has its schedulerName "other", only default-scheduler'
    )


class Fails(Plugin):
    name = "Fails"

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> None:
        raise RuntimeError("no route to the array")


def test_a_failure_after_the_choice_is_the_headline() -> None:
    setting = Setting(DecisionLog(), Fails)
    setting.apply(make_node("a"), make_node("b"), make_pod("web"))
    for _ in range(2):
        setting.advance(30)
    found = about(setting)
    assert [(each.count, each.decision.result) for each in found.attempts] == [(3, "error")]
    assert re.fullmatch(
        r"default/web is pending: [ab] was chosen, but the attempt failed 3 times, last at "
        + re.escape(format_time(START + 60))
        + r': running PreBind plugin "Fails": .*no route to the array.*',
        found.summary,
    )


class Approval(Plugin):
    name = "Approval"

    def permit(self, state: Any, pod: Any, node_name: str) -> Status:
        return wait(5)


def test_a_permit_that_timed_out_is_the_headline() -> None:
    setting = Setting(DecisionLog(), Approval)
    setting.apply(make_node("a"), make_pod("web"))
    assert about(setting).summary.startswith("default/web has a and waits there for permission from Approval")
    setting.clock.advance(6)
    setting.scheduler.tick()
    assert about(setting).summary == (
        f"default/web is pending: a was chosen, but the attempt failed once, at {format_time(START + 6)}: "
        "rejected due to timeout after waiting 5s at plugin Approval"
    )
    setting.advance(2)
    assert about(setting).summary == (
        f"default/web has a and waits there for permission from Approval until {format_time(START + 13)}; "
        "1 earlier attempt failed: rejected due to timeout after waiting 5s at plugin Approval"
    )


def test_a_pod_that_fits_says_why_it_is_still_pending() -> None:
    pod = make_pod("web", phase="Pending")
    assert "no scheduler has tried it yet" in explained(pod, make_node("a"), pod).summary
    pod.status.conditions = [Condition(type="PodScheduled", status="False", reason="Unschedulable")]
    assert "unknown here (--plugin, --config)" in explained(pod, make_node("a"), pod).summary
    pod.status.conditions[0].reason, pod.status.conditions[0].message = "SchedulerError", "it broke"
    assert explained(pod, make_node("a"), pod).summary.endswith("pending: the last attempt failed: it broke")


# ---- the list


def test_the_latest_come_first() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a"))
    for i in range(5):
        setting.apply(make_pod(f"p{i}", requests={"cpu": "1"}))
    log = setting.scheduler.log
    assert isinstance(log, DecisionLog)
    found = recent(setting.scheduler, log, limit=3)
    assert [(each.pod, each.result, each.node) for each in found.pods] == [
        ("default/p4", "unschedulable", ""),
        ("default/p3", "scheduled", "a"),
        ("default/p2", "scheduled", "a"),
    ]
    assert found.pods[1].summary == "the only node, and it fits"
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
    assert len(recent(setting.scheduler, log, limit=10**9).pods) == 5
    assert recent(setting.scheduler, log, limit=-1).pods == []
