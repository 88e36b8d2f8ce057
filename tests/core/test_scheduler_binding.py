"""From the choice of a node to the bound pod, and everything that can go wrong on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import pytest

from mooring.core.effects import Bind, EmitEvent, PatchPodStatus
from mooring.core.queue import Place
from mooring.framework import (
    Action,
    CycleState,
    EventHint,
    Plugin,
    PodInfo,
    Resource,
    Status,
    error,
    requeue_on,
    skip,
    unschedulable,
    wait,
)
from tests.state.facts import whole
from tests.state.histories import configured
from tests.state.objects import node, pod
from tests.state.world import Rules, World, deleted


class Witness(Plugin):
    """Writes down what it is asked for, and answers by the pod's annotation of that name."""

    name = "Witness"
    calls: ClassVar[list[str]] = []

    def events_to_register(self) -> Iterable[EventHint]:
        return [requeue_on(Resource.NODE, Action.ADD)]

    def _answer(self, point: str, pod: PodInfo) -> Status | None:
        self.calls.append(f"{point} {pod.name}")
        wish = pod.annotations.get(point)
        if wish == "refuse":
            return unschedulable("not today")
        if wish == "fail":
            return error("out of order")
        if wish == "raise":
            raise RuntimeError("boom")
        if wish is not None and wish.startswith("wait"):
            return wait(float(wish.removeprefix("wait ")), "patience")
        return skip() if wish == "skip" else None

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._answer("reserve", pod)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer("unreserve", pod)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._answer("permit", pod)

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._answer("pre_bind", pod)

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer("post_bind", pod)


class SecondPermit(Plugin):
    """Another one that holds pods back."""

    name = "SecondPermit"

    def events_to_register(self) -> Iterable[EventHint]:
        return []

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(60.0, "me too") if "second" in pod.annotations else None


WITNESSED = configured(
    {"plugins": {"multiPoint": {"enabled": [{"name": Witness.name}, {"name": SecondPermit.name}]}}}
)


@pytest.fixture
def calls() -> list[str]:
    Witness.calls.clear()
    return Witness.calls


def world_of(*names: str, late: bool = False) -> World:
    world = World(Rules(WITNESSED, (Witness, SecondPermit), late=late))
    world.add(*(node(name) for name in names or ("n0",)))
    return world


def condition(world: World, name: str = "p") -> tuple[str, str, str] | None:
    """The PodScheduled condition that was written for a pod."""
    found = [c for c in world.pod(name).status.conditions if c.type == "PodScheduled"]
    assert len(found) < 2
    return (found[0].status, found[0].reason, found[0].message) if found else None


def assert_no_trace(world: World, empty: dict[str, object], names: Sequence[str] = ("p",)) -> None:
    """Nothing in the state, the queue or Permit remembers the pods."""
    scheduler = world.scheduler
    assert scheduler.cluster.assumed_count() == 0
    assert whole(scheduler.cluster) == empty
    assert not list(scheduler.queue.in_flight())
    assert all(scheduler.queue.get(f"default/{name}") is None for name in names)
    assert len(scheduler.waiting) == 0
    scheduler.queue.validate()


class TestBinding:
    def test_a_pod_is_bound_through_every_step(self, calls: list[str]) -> None:
        world = world_of()
        world.add(pod("p"))
        (decision,) = world.run()
        assert (decision.result, decision.node) == ("scheduled", "n0")
        assert world.nodes_of("p") == ["n0"]
        assert calls == ["reserve p", "permit p", "pre_bind p", "post_bind p"]
        (event,) = world.cluster.events
        reported = (event.regarding.name, event.type, event.reason, event.action, event.note)
        note = "Successfully assigned default/p to n0"
        assert reported == ("p", "Normal", "Scheduled", "Binding", note)
        assert condition(world) is None  # PodScheduled=True is the API server's to write
        assert world.scheduler.cluster.assumed_count() == 0

    def test_a_failed_binding_is_undone_told_and_tried_again(self, calls: list[str]) -> None:
        world = world_of()
        empty = whole(world.scheduler.cluster)
        world.cluster.refusing = 1
        world.add(pod("p", {"cpu": "1"}))
        (decision,) = world.run()
        assert decision.node == "n0"
        assert calls == ["reserve p", "permit p", "pre_bind p", "unreserve p"]
        assert whole(world.scheduler.cluster) == empty
        message = 'running Bind plugin "DefaultBinder": the API server is not there'
        assert condition(world) == ("False", "SchedulerError", message)
        (event,) = world.cluster.events
        assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
        assert event.note == message
        queued = world.scheduler.queue.get("default/p")
        assert queued is not None
        assert queued.place is Place.ERROR_BACKOFF

        assert world.run() == []  # unlike a refused pod it waits for its backoff to end
        wake = world.scheduler.next_wake()
        assert wake is not None
        assert 1.0 < wake - world.now <= 2.0
        assert world.wait(0.5) == []
        (again,) = world.wait(wake - world.now)
        assert (again.result, again.attempts) == ("scheduled", 2)
        assert world.nodes_of("p") == ["n0"]
        assert world.notes("Scheduled") == ["Successfully assigned default/p to n0"]

    def test_errors_back_off_longer_each_time(self) -> None:
        world = world_of()
        world.cluster.refusing = 6
        world.add(pod("p"))
        world.run()
        waits = []
        for _ in range(6):
            wake = world.scheduler.next_wake()
            assert wake is not None
            waits.append(wake - world.now)
            world.wait(wake - world.now)
        assert world.nodes_of("p") == ["n0"]
        for waited, least in zip(waits, (1, 2, 4, 8, 10, 10), strict=True):
            assert least < waited <= least + 1

    @pytest.mark.parametrize(
        ("point", "wish", "expected"),
        [
            ("pre_bind", "refuse", 'running PreBind plugin "Witness": not today'),
            ("pre_bind", "fail", 'running PreBind plugin "Witness": out of order'),
            ("pre_bind", "raise", 'running PreBind plugin "Witness": RuntimeError: boom'),
            ("reserve", "fail", 'running Reserve plugin "Witness": out of order'),
            ("reserve", "raise", 'running Reserve plugin "Witness": RuntimeError: boom'),
            ("permit", "fail", 'running Permit plugin "Witness": out of order'),
            ("permit", "raise", 'running Permit plugin "Witness": RuntimeError: boom'),
        ],
    )
    def test_an_error_on_the_way(self, calls: list[str], point: str, wish: str, expected: str) -> None:
        world = world_of()
        empty = whole(world.scheduler.cluster)
        world.add(pod("p", {"cpu": "1"}, metadata={"annotations": {point: wish}}))
        world.run()
        assert condition(world) == ("False", "SchedulerError", expected)
        assert world.notes("FailedScheduling") == [expected]
        assert calls[-1] == "unreserve p"
        assert whole(world.scheduler.cluster) == empty
        queued = world.scheduler.queue.get("default/p")
        assert queued is not None
        assert queued.place is Place.ERROR_BACKOFF

    @pytest.mark.parametrize("point", ["reserve", "permit"])
    def test_a_late_refusal_speaks_of_one_node(self, calls: list[str], point: str) -> None:
        world = world_of("n0", "n1", "n2")
        empty = whole(world.scheduler.cluster)
        world.add(pod("p", {"cpu": "1"}, metadata={"annotations": {point: "refuse"}}))
        (decision,) = world.run()
        message = "0/1 nodes are available: 1 not today."
        assert (decision.result, decision.node, decision.message) == ("unschedulable", "", message)
        assert condition(world) == ("False", "Unschedulable", message)
        assert decision.unschedulable_plugins == ["Witness"]
        assert calls[-1] == "unreserve p"
        assert whole(world.scheduler.cluster) == empty

    def test_a_post_bind_that_fails_changes_nothing(self) -> None:
        world = world_of()
        world.add(pod("p", metadata={"annotations": {"post_bind": "raise"}}))
        world.run()
        assert world.nodes_of("p") == ["n0"]
        assert world.notes("Scheduled") == ["Successfully assigned default/p to n0"]
        assert world.notes("FailedScheduling") == []

    def test_one_pod_s_failure_is_no_other_s(self) -> None:
        world = world_of()
        world.add(
            pod("p", metadata={"annotations": {"reserve": "raise"}}),
            pod("q"),
            pod("r", metadata={"annotations": {"permit": "raise"}}),
            pod("s"),
        )
        world.run()
        assert world.nodes_of("p", "q", "r", "s") == ["", "n0", "", "n0"]


class TestPermit:
    def test_a_pod_is_held_until_it_is_allowed(self, calls: list[str]) -> None:
        world = world_of()
        world.add(pod("p", {"cpu": "1"}, metadata={"annotations": {"permit": "wait 10"}}))
        (decision,) = world.run()
        assert decision.result == "scheduled"
        assert world.nodes_of("p") == [""]
        assert world.scheduler.cluster.assumed_count() == 1
        held = world.scheduler.waiting.get("p")
        assert held is not None
        assert (held.node_name, held.pending_plugins) == ("n0", ["Witness"])
        held.allow("Somebody")  # has no say in it
        assert len(world.scheduler.waiting) == 1
        held.allow("Witness")
        world.run()
        assert world.nodes_of("p") == ["n0"]
        assert len(world.scheduler.waiting) == 0
        assert calls == ["reserve p", "permit p", "pre_bind p", "post_bind p"]

    def test_everyone_who_holds_a_pod_must_allow_it(self) -> None:
        world = world_of()
        world.add(pod("p", metadata={"annotations": {"permit": "wait 10", "second": ""}}))
        world.run()
        held = world.scheduler.waiting.get("p")
        assert held is not None
        assert sorted(held.pending_plugins) == ["SecondPermit", "Witness"]
        held.allow("Witness")
        world.run()
        assert world.nodes_of("p") == [""]
        held.allow("SecondPermit")
        world.run()
        assert world.nodes_of("p") == ["n0"]

    def test_time_runs_out(self, calls: list[str]) -> None:
        world = world_of()
        empty = whole(world.scheduler.cluster)
        world.add(pod("p", {"cpu": "1"}, metadata={"annotations": {"permit": "wait 10", "second": ""}}))
        world.run()
        started = world.now
        assert world.scheduler.next_wake() == started + 10
        world.wait(9.75)
        assert len(world.scheduler.waiting) == 1
        world.wait(0.25)
        message = "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Witness."
        assert condition(world) == ("False", "Unschedulable", message)
        assert world.notes("FailedScheduling") == [message]
        assert calls[-1] == "unreserve p"
        assert_no_trace(world, empty, names=())

    def test_no_plugin_holds_a_pod_for_more_than_a_quarter_of_an_hour(self) -> None:
        world = world_of()
        world.add(pod("p", metadata={"annotations": {"permit": "wait 5000"}}))
        world.run()
        assert world.scheduler.next_wake() == world.now + 15 * 60

    def test_a_rejected_pod_comes_back(self) -> None:
        world = world_of()
        world.add(pod("p", metadata={"annotations": {"permit": "wait 10"}}))
        world.run()
        held = world.scheduler.waiting.get("p")
        assert held is not None
        held.reject("Witness", "changed my mind")
        assert world.scheduler.cluster.assumed_count() == 0
        world.cluster.carry_out(world.scheduler.take_effects())
        assert condition(world) == (
            "False",
            "Unschedulable",
            "0/1 nodes are available: 1 changed my mind.",
        )
        queued = world.scheduler.queue.get("default/p")
        assert queued is not None
        assert queued.unschedulable_plugins == {"Witness"}


class TestGoneMeanwhile:
    def test_deleted_while_it_waits_in_permit(self, calls: list[str]) -> None:
        world = world_of()
        empty = whole(world.scheduler.cluster)
        waiting = pod("p", {"cpu": "1"}, metadata={"annotations": {"permit": "wait 10"}})
        world.add(waiting)
        world.run()
        world.remove(waiting)
        assert calls == ["reserve p", "permit p", "unreserve p"]
        assert_no_trace(world, empty)
        assert world.scheduler.next_wake() is None
        assert world.wait(1000) == []

    def test_deletion_announced_while_it_waits_in_permit(self, calls: list[str]) -> None:
        world = world_of()
        empty = whole(world.scheduler.cluster)
        waiting = pod("p", {"cpu": "1"}, metadata={"annotations": {"permit": "wait 10"}})
        world.add(waiting)
        world.run()
        world.add(deleted(waiting, world.now))
        assert calls == ["reserve p", "permit p", "unreserve p"]
        assert world.scheduler.cluster.assumed_count() == 0
        world.remove(deleted(waiting, world.now))
        assert_no_trace(world, empty)

    def test_deleted_while_it_is_being_bound(self, calls: list[str]) -> None:
        world = world_of(late=True)
        empty = whole(world.scheduler.cluster)
        doomed = pod("p", {"cpu": "1"})
        world.add(doomed)
        world.run()
        assert world.scheduler.cluster.assumed_count() == 1
        world.remove(doomed)
        assert_no_trace(world, empty)  # what it took is free at once
        world.cluster.settle()  # the binding goes on and fails
        world.run()
        assert calls[-1] == "unreserve p"
        assert_no_trace(world, empty)
        assert world.wait(1000) == []

    def test_the_room_of_a_deleted_pod_is_for_the_next(self) -> None:
        world = world_of(late=True)
        first, second = pod("p", {"cpu": "3"}), pod("q", {"cpu": "3"})
        world.add(first)
        world.run()
        world.add(second)
        assert [d.result for d in world.run()] == ["unschedulable"]
        world.remove(first)
        assert [(d.pod, d.node) for d in world.run()] == [("default/q", "n0")]
        world.cluster.settle()
        assert world.nodes_of("q") == ["n0"]

    def test_bound_by_someone_else_while_it_is_being_bound(self, calls: list[str]) -> None:
        world = world_of("n0", late=True)
        world.add(pod("p", {"cpu": "1"}))
        world.run()
        world.add(node("n1"), pod("p", {"cpu": "1"}, on="n1"))
        table = world.scheduler.cluster
        assert {row.name: row.requested["cpu"] for row in table.nodes} == {"n0": 0, "n1": 1000}
        world.cluster.settle()
        world.run()
        assert calls[-1] == "unreserve p"
        assert world.nodes_of("p") == ["n1"]
        assert {row.name: row.requested["cpu"] for row in table.nodes} == {"n0": 0, "n1": 1000}
        assert table.assumed_count() == 0
        assert not list(world.scheduler.queue.in_flight())
        assert world.scheduler.queue.get("default/p") is None
        assert world.wait(1000) == []

    def test_bound_by_someone_else_while_it_waits_in_permit(self) -> None:
        world = world_of("n0", "n1")
        world.add(pod("p", {"cpu": "1"}, metadata={"annotations": {"permit": "wait 10"}}))
        world.run()
        elsewhere = "n1" if world.scheduler.cluster.node_of("p") == "n0" else "n0"
        world.add(pod("p", {"cpu": "1"}, on=elsewhere, metadata={"annotations": {"permit": "wait 10"}}))
        world.wait(11)
        table = world.scheduler.cluster
        assert table.assumed_count() == 0
        assert {row.name: row.requested["cpu"] for row in table.nodes if row.name == elsewhere} == {
            elsewhere: 1000
        }
        assert sum(row.requested["cpu"] for row in table.nodes) == 1000
        assert world.nodes_of("p") == [elsewhere]
        assert len(world.scheduler.waiting) == 0

    def test_bound_by_someone_else_while_it_queues(self) -> None:
        world = world_of()
        world.add(pod("p", {"cpu": "9"}))
        world.run()
        world.add(pod("p", {"cpu": "9"}, on="n0"))
        assert world.scheduler.queue.get("default/p") is None
        assert world.wait(1000) == []

    def test_made_anew_under_its_name_while_it_is_being_bound(self) -> None:
        world = world_of(late=True)
        first, second = pod("p", {"cpu": "1"}, uid="one"), pod("p", {"cpu": "1"}, uid="two")
        world.add(first)
        world.run()
        world.remove(first)
        world.add(second)
        world.cluster.settle()
        world.run()
        world.cluster.settle()
        world.run()
        assert world.cluster.bound == [("two", "n0")]
        row = world.scheduler.cluster.node("n0")
        assert row is not None
        assert [found.uid for found in row.pods] == ["two"]

    def test_the_node_goes_while_the_pod_is_being_bound(self) -> None:
        world = world_of("n0", late=True)
        world.add(pod("p", {"cpu": "1"}))
        world.run()
        world.remove(node("n0"))
        world.cluster.refusing = 1
        world.cluster.settle()
        world.run()
        assert world.scheduler.cluster.assumed_count() == 0
        world.add(node("n1"))
        world.wait(10)
        world.cluster.settle()
        assert world.nodes_of("p") == ["n1"]


class TestEffects:
    def test_effects_come_out_in_order_and_once(self) -> None:
        world = world_of()
        scheduler = world.scheduler
        scheduler.apply(pod("p"))
        scheduler.apply(pod("q", {"cpu": "100"}))
        scheduler.schedule_one()
        scheduler.schedule_one()
        bind, event, patch = scheduler.take_effects()
        assert isinstance(bind, Bind)
        assert bind.cycle.pod.name == "p"
        assert isinstance(event, EmitEvent)
        assert isinstance(patch, PatchPodStatus)
        assert event.regarding.name == patch.pod.name == "q"
        assert scheduler.take_effects() == []
        assert scheduler.schedule_one() is None


class Gang(Plugin):
    """Holds pods for each other; where one fails, the others are let go."""

    name = "Gang"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(10.0)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        for other in self.handle.waiting_pods():
            other.reject(self.name, f"{pod.name} failed")


def test_pods_that_wait_for_each_other_fail_together() -> None:
    world = World(Rules(configured({"plugins": {"multiPoint": {"enabled": [{"name": "Gang"}]}}}), (Gang,)))
    world.add(node("n0"), pod("p", {"cpu": "1"}), pod("q", {"cpu": "1"}))
    world.run()
    assert len(world.scheduler.waiting) == 2
    world.now += 10
    world.scheduler.tick()  # both are due, and the first to fail takes the other along
    world.cluster.carry_out(world.scheduler.take_effects())
    assert len(world.scheduler.waiting) == 0
    assert world.scheduler.cluster.assumed_count() == 0
    assert sorted(world.notes("FailedScheduling")) == [
        "0/1 nodes are available: 1 p failed.",
        "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Gang.",
    ]
