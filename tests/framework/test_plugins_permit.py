"""Permit: approve, deny or hold a pod whose node is chosen."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import (
    Action,
    Plugin,
    Resource,
    Status,
    error,
    pending,
    requeue_on,
    skip,
    unresolvable,
    unschedulable,
    wait,
)
from mooring.testing import Cluster, make_node, make_pod
from tests.framework.kit import beside_defaults, only, probe

NEVER: list[Any] = []


def holding(name: str, timeout: float = 30, calls: list[str] | None = None) -> type[Plugin]:
    return probe(name, calls, permit=wait(timeout, "held"), unreserve=None, events_to_register=NEVER)


def started(*plugins: type[Plugin], **pod: Any) -> Cluster:
    """A cluster in which a pod has reached permit."""
    cluster = only(*plugins, nodes=("a",))
    cluster.apply(make_pod(**pod))
    cluster.schedule()
    return cluster


def held(cluster: Cluster) -> Any:
    (found,) = cluster.scheduler.waiting
    return found


def test_none_approves() -> None:
    assert started(probe("A", permit=None)).node_of("pod") == "a"


@pytest.mark.parametrize("status", [unschedulable("no"), unresolvable("no"), pending("no")])
def test_a_refusal_denies(status: Status) -> None:
    calls: list[str] = []
    a = probe("A", calls, permit=status, unreserve=None, events_to_register=NEVER)
    b = probe("B", calls, permit=None)
    calls.clear()
    cluster = started(a, b)
    assert calls[1:] == ["A.permit", "A.unreserve"]
    decision = cluster.decision("pod")
    assert (decision.result, decision.message) == ("unschedulable", "0/1 nodes are available: 1 no.")
    assert decision.unschedulable_plugins == ["A"]
    assert list(cluster.scheduler.cluster.pods()) == []


@pytest.mark.parametrize("status", [error("no"), skip()])
def test_other_statuses_are_errors(status: Status) -> None:
    decision = started(probe("A", permit=status)).decision("pod")
    assert decision.result == "error"
    assert decision.message.startswith('running Permit plugin "A": ')


class TestWaiting:
    def test_the_pod_is_held_on_its_node_and_not_bound(self) -> None:
        cluster = started(holding("A"))
        pod = held(cluster)
        assert (pod.pod.name, pod.node_name, list(pod.pending_plugins)) == ("pod", "a", ["A"])
        assert cluster.node_of("pod") == ""
        assert [p.name for p in cluster.scheduler.cluster.pods()] == ["pod"]

    def test_its_room_is_taken(self) -> None:
        cluster = beside_defaults(holding("A"), nodes=("a",))
        cluster.apply(make_pod("first", requests={"cpu": "3"}))
        cluster.schedule()
        cluster.apply(make_pod("second", requests={"cpu": "3"}))
        cluster.schedule()
        assert cluster.decision("second").message.startswith("0/1 nodes are available: 1 Insufficient cpu.")

    def test_allowing_it_lets_it_bind(self) -> None:
        cluster = started(holding("A"))
        held(cluster).allow("A")
        cluster.schedule()
        assert cluster.node_of("pod") == "a"
        assert len(cluster.scheduler.waiting) == 0

    def test_all_that_hold_it_must_allow_it(self) -> None:
        cluster = started(holding("A"), probe("B", permit=None), holding("C"))
        pod = held(cluster)
        assert list(pod.pending_plugins) == ["A", "C"]
        pod.allow("A")
        pod.allow("A")
        pod.allow("B")
        cluster.schedule()
        assert (cluster.node_of("pod"), list(pod.pending_plugins)) == ("", ["C"])
        pod.allow("C")
        cluster.schedule()
        assert cluster.node_of("pod") == "a"

    def test_a_refusal_outranks_a_wait_and_all_are_asked_until_then(self) -> None:
        calls: list[str] = []
        refusing = probe("B", calls, permit=unschedulable("no"), events_to_register=NEVER)
        cluster = started(holding("A", calls=calls), refusing, holding("C", calls=calls))
        assert [call for call in calls if "permit" in call] == ["A.permit", "B.permit"]
        assert len(cluster.scheduler.waiting) == 0
        assert cluster.decision("pod").message == "0/1 nodes are available: 1 no."

    def test_rejecting_it_undoes_everything(self) -> None:
        calls: list[str] = []
        cluster = started(holding("A", calls=calls), holding("B", calls=calls))
        calls.clear()
        held(cluster).reject("A", "changed my mind")
        cluster.schedule()
        assert calls == ["B.unreserve", "A.unreserve"]
        assert list(cluster.scheduler.cluster.pods()) == []
        condition = cluster.pod("pod").status.conditions[0]
        assert condition.message == "0/1 nodes are available: 1 changed my mind."
        assert cluster.scheduler.queue.counts()["unschedulable"] == 1

    def test_the_first_word_is_final(self) -> None:
        cluster = started(holding("A"))
        pod = held(cluster)
        pod.reject("A", "no")
        pod.allow("A")
        pod.reject("A", "no again")
        cluster.schedule()
        assert cluster.node_of("pod") == ""
        notes = [event.note for event in cluster.events() if event.reason == "FailedScheduling"]
        assert notes == ["0/1 nodes are available: 1 no."]

    def test_one_plugin_can_release_the_pods_that_it_holds_itself(self) -> None:
        """A gang: held until the third member has a node, then all go."""

        class Gang(Plugin):
            name = "Gang"

            def permit(self, state: Any, pod: Any, node_name: str) -> Status | None:
                others = list(self.handle.waiting_pods())
                if len(others) < 2:
                    return wait(60, "waiting for the gang")
                for other in others:
                    other.allow(self.name)
                return None

        cluster = only(Gang)
        cluster.apply(make_pod("one"), make_pod("two"))
        cluster.schedule()
        assert {pod.spec.node_name for pod in cluster.pods()} == {""}
        cluster.apply(make_pod("three"))
        cluster.schedule()
        assert all(pod.spec.node_name for pod in cluster.pods())

    def test_a_deleted_pod_leaves_nothing_behind(self) -> None:
        calls: list[str] = []
        cluster = started(holding("A", calls=calls))
        cluster.delete(cluster.pod("pod"))
        cluster.schedule()
        assert "A.unreserve" in calls
        assert len(cluster.scheduler.waiting) == 0
        assert list(cluster.scheduler.cluster.pods()) == []
        assert cluster.scheduler.queue.counts() == dict.fromkeys(cluster.scheduler.queue.counts(), 0)


class TestTimeouts:
    def test_the_pod_is_refused_when_the_time_is_over(self) -> None:
        cluster = started(holding("A", 90))
        cluster.advance(89.9)
        assert len(cluster.scheduler.waiting) == 1
        cluster.advance(0.1)
        assert len(cluster.scheduler.waiting) == 0
        assert cluster.pod("pod").status.conditions[0].message == (
            "0/1 nodes are available: 1 rejected due to timeout after waiting 1m30s at plugin A."
        )

    def test_the_scheduler_asks_to_be_woken_then(self) -> None:
        cluster = started(holding("A", 90), holding("B", 20))
        assert cluster.scheduler.next_wake() == cluster.now() + 20

    def test_the_first_time_that_runs_out_decides(self) -> None:
        cluster = started(holding("A", 90), holding("B", 20))
        held(cluster).allow("A")
        cluster.advance(20)
        message = cluster.pod("pod").status.conditions[0].message
        assert message.endswith("timeout after waiting 20s at plugin B.")

    def test_allowed_plugins_run_out_no_more(self) -> None:
        cluster = started(holding("A", 90), holding("B", 20))
        held(cluster).allow("B")
        cluster.advance(30)
        assert len(cluster.scheduler.waiting) == 1

    def test_nobody_waits_for_longer_than_a_quarter_of_an_hour(self) -> None:
        cluster = started(holding("A", 5000))
        cluster.advance(899)
        assert len(cluster.scheduler.waiting) == 1
        cluster.advance(1)
        assert len(cluster.scheduler.waiting) == 0
        assert "after waiting 15m0s at plugin A" in cluster.pod("pod").status.conditions[0].message

    def test_a_plugin_may_reject_others_when_one_runs_out_of_time(self) -> None:
        """All members of a gang run out of time at once, and the first that does ends it for all."""

        class Gang(Plugin):
            name = "Gang"

            def permit(self, state: Any, pod: Any, node_name: str) -> Status:
                return wait(30, "waiting for the gang")

            def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
                for other in self.handle.waiting_pods():
                    other.reject(self.name, f"without {pod.name}")

            def events_to_register(self) -> Any:
                return NEVER

        cluster = only(Gang)
        cluster.apply(make_pod("one"), make_pod("two"), make_pod("three"))
        cluster.schedule()
        cluster.advance(30)
        assert len(cluster.scheduler.waiting) == 0
        messages = [pod.status.conditions[0].message for pod in cluster.pods()]
        assert "timeout after waiting 30s at plugin Gang" in messages[0]
        assert [message.endswith(("without one.", "without two.")) for message in messages[1:]] == [
            True,
            True,
        ]

    def test_the_room_is_free_again(self) -> None:
        hold_first = probe(
            "A",
            permit=lambda state, pod, node: wait(10, "held") if pod.name == "first" else None,
            events_to_register=NEVER,
        )
        cluster = beside_defaults(hold_first, nodes=())
        cluster.apply(make_node("a"), make_pod("first", requests={"cpu": "3"}, priority=1))
        cluster.schedule()
        cluster.apply(make_pod("second", requests={"cpu": "3"}))
        cluster.schedule()
        assert cluster.node_of("second") == ""
        cluster.advance(10)  # the refusal of the first is an event for the second
        cluster.advance(10)
        assert (cluster.node_of("first"), cluster.node_of("second")) == ("", "a")


class TestWhileWaiting:
    """Events reach the plugin that holds a pod."""

    def cluster(self, react: Any, events: Any) -> Cluster:
        plugin = probe("A", permit=wait(60, "held"), while_waiting=react, events_to_register=events)
        cluster = only(plugin, nodes=("a",))
        cluster.apply(make_pod(uid="1"))
        cluster.schedule()
        return cluster

    def test_a_change_of_the_pod_itself(self) -> None:
        seen: list[Any] = []

        def react(waiting: Any, old: Any, new: Any) -> None:
            seen.append((old.annotations, new.annotations))
            if "approved" in new.annotations:
                waiting.allow("A")

        cluster = self.cluster(react, [requeue_on(Resource.POD, Action.UPDATE)])
        cluster.apply(make_pod(uid="1", annotations={"approved": "yes"}))
        cluster.schedule()
        assert seen == [({}, {"approved": "yes"})]
        assert cluster.node_of("pod") == "a"

    def test_only_registered_events_are_passed(self) -> None:
        seen: list[Any] = []

        def react(waiting: Any, old: Any, new: Any) -> None:
            seen.append(new.name)

        cluster = self.cluster(react, [requeue_on(Resource.NODE, Action.ADD)])
        cluster.apply(make_node("b"))
        cluster.apply(make_pod("other", node_name="a"))
        assert seen == ["b"]
        assert cluster.node_of("pod") == ""

    def test_rejecting_it(self) -> None:
        def react(waiting: Any, old: Any, new: Any) -> None:
            waiting.reject("A", "no longer wanted")

        cluster = self.cluster(react, [requeue_on(Resource.NODE, Action.ADD)])
        cluster.apply(make_node("b"))
        cluster.schedule()
        assert "no longer wanted" in cluster.pod("pod").status.conditions[0].message

    def test_a_failure_ends_the_waiting_with_an_error(self) -> None:
        def react(waiting: Any, old: Any, new: Any) -> None:
            raise ValueError("boom")

        cluster = self.cluster(react, [requeue_on(Resource.NODE, Action.ADD)])
        cluster.apply(make_node("b"))
        assert len(cluster.scheduler.waiting) == 0
        cluster.schedule()
        message = 'running Permit plugin "A": ValueError: boom'
        assert message in str([event.note for event in cluster.events()])
