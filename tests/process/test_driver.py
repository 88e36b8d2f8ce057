"""The loop that drives a scheduler: what is on its way is bounded, arrives, or leaves no trace."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from mooring.api.kinds import EVENTS, NODES, PODS
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.config import LoadedConfig, from_object
from mooring.config.enabling import config_with
from mooring.core.effects import EmitEvent
from mooring.framework import CycleState, EventHint, Nodes, Plugin, PodInfo, Status
from mooring.framework.plugin import Plugin as AnyPlugin
from mooring.process import driver as drivers
from mooring.process.driver import AHEAD, GRACE
from mooring.testing import make_node, make_pod
from tests.client import virtual_time
from tests.client.fake_cluster import Tree
from tests.process.driven import Driven, driven, node, pod
from tests.state.histories import configured

Scenario = Callable[[Driven], Awaitable[None]]


def driving(scenario: Scenario, *pods: Tree, **more: Any) -> None:
    """Run a scenario on a driver that has these pods to deal with."""

    async def main() -> None:
        async with driven(*pods, **more) as it:
            await scenario(it)

    virtual_time.run(main())


async def for_a_moment() -> None:
    """Long enough for what happens at once, too short for any backoff."""
    await asyncio.sleep(0.5)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = record.fields  # type: ignore[attr-defined]
    return fields


class TestPausing:
    def test_a_paused_driver_makes_one_attempt_for_each_step(self) -> None:
        async def scenario(it: Driven) -> None:
            it.driver.pause()
            await for_a_moment()
            assert it.server.bound == []
            it.driver.step()
            await for_a_moment()
            assert len(it.server.bound) == 1
            assert it.driver.paused
            it.driver.resume()
            await for_a_moment()
            assert len(it.server.bound) == 3

        driving(scenario, pod("a"), pod("b"), pod("c"))


class TestScheduling:
    def test_pods_are_bound_and_told_about(self) -> None:
        async def scenario(it: Driven) -> None:
            await for_a_moment()
            assert it.server.bound == [("p", "n0")]
            assert it.server.notes("Scheduled") == ["Successfully assigned default/p to n0"]
            condition = it.server.condition("p")
            assert condition is not None
            assert condition["status"] == "True"
            assert it.scheduler.cluster.assumed_count() == 0

        driving(scenario, pod("p"))

    def test_a_pod_waits_for_what_it_needs(self) -> None:
        async def scenario(it: Driven) -> None:
            await for_a_moment()
            condition = it.server.condition("p")
            assert condition is not None
            assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
            assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
            assert it.server.notes("FailedScheduling") == [condition["message"]]
            it.server.put(NODES, node("n1", cpu="64"))
            await asyncio.sleep(3)
            assert it.server.bound == [("p", "n1")]

        driving(scenario, pod("p", cpu="16"))

    def test_a_backoff_that_ends_between_two_readings_of_the_clock_is_noticed(self) -> None:
        """Timers of the event loop are early by a fraction of a millisecond now and then."""

        async def scenario(it: Driven) -> None:
            for name in (f"p{number}" for number in range(20)):
                it.server.refusals["post", "pods"] = ApiError(403, "Forbidden", "not now")
                it.server.put(PODS, pod(name))
                await for_a_moment()
                it.server.refusals.clear()
                await asyncio.sleep(4)
                assert it.server.bound[-1] == (name, "n0")

        lags = random.Random(1)
        driving(scenario, lag=lambda: lags.choice((0.0, 0.0001)))

    def test_events_are_reported_by_the_named_profile_the_pods_or_the_first(self) -> None:
        async def scenario(it: Driven) -> None:
            for name, scheduler, profile in (
                ("a", "packer", ""),
                ("b", "another-scheduler", ""),
                ("c", "default-scheduler", "packer"),
            ):
                regarding = it.scheduler.cluster.info(make_pod(name, scheduler_name=scheduler))
                effect = EmitEvent(regarding, "Normal", "Preempted", "Preempting", "note", profile)
                it.scheduler.effects.append(effect)
            it.driver.apply(make_node("n1"))  # wakes the driver
            await for_a_moment()
            events = [tree for key, tree in it.server.objects.items() if key[0] == EVENTS.name]
            reporters = {event["regarding"]["name"]: event["reportingController"] for event in events}
            assert reporters == {"a": "packer", "b": "default-scheduler", "c": "packer"}

        profiles = ({"schedulerName": name} for name in ("default-scheduler", "packer"))
        driving(scenario, config=configured(*profiles))

    def test_an_idle_driver_wakes_up_for_timers_only(self) -> None:
        """Left alone for hours, a pod is tried again every five minutes or so, and nobody else is asked."""

        async def scenario(it: Driven) -> None:
            await asyncio.sleep(4 * 3600)
            assert 40 <= len(it.decisions) <= 50

        driving(scenario, pod("p", cpu="16"))

    def test_they_are_told_about_while_nothing_changes(self) -> None:
        begun, let_go = threading.Event(), threading.Event()

        class Slow(Plugin):
            name = "Slow"

            def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
                begun.set()
                assert let_go.wait(10)

        async def scenario(it: Driven) -> int:
            def reports() -> int:
                time.sleep(0.03)  # longer than the event loop waits
                return len(it.decisions)

            await asyncio.to_thread(begun.wait)
            question = asyncio.create_task(it.driver.ask(reports))  # follows the attempt at once
            await asyncio.sleep(0)
            let_go.set()
            told_during_question = await question
            while not it.decisions:
                await asyncio.sleep(0.001)
            return told_during_question

        async def main() -> int:
            async with driven(pod("p"), plugins=[Slow], config=from_object(config_with([Slow]))) as it:
                return await scenario(it)

        assert asyncio.run(main()) == 0

    def test_changes_are_compared_with_many_waiting_pods_in_the_thread(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(drivers, "MANY", 1)
        threads: list[str] = []

        async def main() -> None:
            async with driven(*(pod(name, cpu="9") for name in "abc")) as it:
                while it.scheduler.queue.parked < 3:
                    await asyncio.sleep(0.001)
                monkeypatch.setattr(
                    it.scheduler.queue.__class__,
                    "move_all",
                    lambda *args: threads.append(threading.current_thread().name),
                )
                it.driver.apply(make_node("n1"))
                while not threads:
                    await asyncio.sleep(0.001)

        asyncio.run(main())
        assert {name.rpartition("-")[0] for name in threads} == {"mooring-core"}


class TestAhead:
    def test_no_more_pods_than_that_are_on_their_way(self) -> None:
        async def scenario(it: Driven) -> None:
            held = it.server.hold("post")
            await asyncio.sleep(20)
            assert len(it.server.asked("post")) == AHEAD
            assert len(it.decisions) == AHEAD
            held.set()
            await for_a_moment()
            assert len(it.server.bound) == 3 * AHEAD

        driving(scenario, *(pod(f"p{i}") for i in range(3 * AHEAD)))

    def test_pods_that_wait_for_something_else_are_not_counted(self) -> None:
        async def scenario(it: Driven) -> None:
            await asyncio.sleep(5)
            assert len(it.server.bound) == 10
            assert it.driver.client.waiting == 2 * AHEAD
            Patient.there = True
            await asyncio.sleep(5)
            assert len(it.server.bound) == 2 * AHEAD + 10
            assert it.driver.client.waiting == 0

        Patient.there = False
        patient = [pod(f"a{i}", priority=1) for i in range(2 * AHEAD)]
        hasty = [pod(f"z{i}") for i in range(10)]
        driving(scenario, *patient, *hasty, **enabled(Patient))


class Patient(Plugin):
    """Waits in pre_bind for something to be there, for pods of some priority."""

    name = "Patient"
    there = False

    def events_to_register(self) -> Iterable[EventHint]:
        return []

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if pod.priority:
            assert self.handle.client is not None
            await self.handle.client.wait_until(lambda: Patient.there, 600)
        return None


def enabled(*plugins: type[AnyPlugin]) -> dict[str, Any]:
    names = [{"name": cls.name} for cls in plugins]
    config: LoadedConfig = configured({"plugins": {"multiPoint": {"enabled": names}}})
    return {"plugins": plugins, "config": config}


class TestBindingFailures:
    def test_a_refused_binding_is_undone_told_and_tried_again(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scenario(it: Driven) -> None:
            it.server.refusals["post", "pods"] = ApiError(403, "Forbidden", "no bindings on Mondays")
            it.server.put(PODS, pod("p"))
            await for_a_moment()
            message = 'running Bind plugin "DefaultBinder": no bindings on Mondays'
            condition = it.server.condition("p")
            assert condition is not None
            assert (condition["reason"], condition["message"]) == ("SchedulerError", message)
            assert it.server.notes("FailedScheduling") == [message]
            assert it.scheduler.cluster.assumed_count() == 0
            await asyncio.sleep(3)
            assert len(it.server.asked("post")) == 2
            it.server.refusals.clear()
            await asyncio.sleep(5)
            assert it.server.bound == [("p", "n0")]

        driving(scenario)
        (record,) = caplog.records  # the second failure in the same words is not told
        message = 'running Bind plugin "DefaultBinder": no bindings on Mondays'
        assert fields_of(record) == {"pod": "default/p", "node": "n0", "err": message}

    @pytest.mark.parametrize("known", [False, True])
    def test_a_pod_bound_by_another_is_left_in_peace(self, known: bool) -> None:
        """Whether we hear of it before our own request is refused, or after. In neither case is a failure
        reported: its condition would replace the one of the binding."""

        async def scenario(it: Driven) -> None:
            held = it.server.hold("post")
            it.server.put(PODS, pod("p", cpu="1"))
            await for_a_moment()
            if not known:
                it.server.stall_watches()
            it.server.bind("p", "n1")
            await for_a_moment()
            held.set()
            await asyncio.sleep(30)
            it.server.resume_watches()
            await asyncio.sleep(60)
            assert it.server.bound == [("p", "n1")]
            assert len(it.decisions) == 1
            condition = it.server.condition("p")
            assert condition is not None
            assert condition["status"] == "True"
            assert it.server.notes("FailedScheduling") == []
            assert it.scheduler.cluster.node_of(it.server.pod("p")["metadata"]["uid"]) == "n1"

        driving(scenario, nodes=[node("n0"), node("n1", cpu="0")])

    def test_a_pod_deleted_on_its_way_leaves_no_trace(self) -> None:
        async def scenario(it: Driven) -> None:
            held = it.server.hold("post")
            it.server.put(PODS, pod("p", cpu="4"))
            await for_a_moment()
            it.server.remove(PODS, "p", "default")
            held.set()
            await for_a_moment()
            assert it.server.bound == []
            assert len(it.scheduler.cluster) == 0
            it.server.put(PODS, pod("q", cpu="4"))
            await for_a_moment()
            assert it.server.bound == [("q", "n0")]

        driving(scenario)

    def test_an_older_failure_is_not_told_after_the_pod_is_bound(self) -> None:
        """The failure's status is still on its way when the next attempt finds a node."""

        async def scenario(it: Driven) -> None:
            held = it.server.hold("patch")
            it.server.put(PODS, pod("p", cpu="16"))
            await for_a_moment()
            it.server.put(NODES, node("n1", cpu="64"))
            await asyncio.sleep(3)
            assert [decision.result for decision in it.decisions] == ["unschedulable", "scheduled"]
            assert it.server.bound == []
            held.set()
            await for_a_moment()
            assert it.server.bound == [("p", "n1")]
            condition = it.server.condition("p")
            assert condition is not None
            assert condition["status"] == "True"

        driving(scenario)


class TestPreemption:
    VICTIM = pod("victim", on="n0", cpu="4")
    URGENT = pod("urgent", priority=1000, cpu="4")

    def test_the_victim_is_marked_and_deleted_and_the_pod_takes_its_place(self) -> None:
        async def scenario(it: Driven) -> None:
            held = it.server.hold("delete")
            it.server.put(PODS, self.URGENT)
            await for_a_moment()
            mark = it.server.condition("victim", "DisruptionTarget")
            assert mark is not None
            assert (mark["status"], mark["reason"]) == ("True", "PreemptionByScheduler")
            assert mark["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
            assert it.server.pod("urgent")["status"]["nominatedNodeName"] == "n0"
            assert it.server.notes("Preempted") == []  # it may stay after all
            held.set()
            await asyncio.sleep(3)
            (note,) = it.server.notes("Preempted")
            assert note == f"Preempted by pod {it.server.pod('urgent')['metadata']['uid']} on node n0"
            assert it.server.bound == [("urgent", "n0")]
            assert it.scheduler.evictions.preempting == {}

        driving(scenario, self.VICTIM)

    @pytest.mark.parametrize("verb", ["patch", "delete"])
    def test_a_failed_eviction_is_told_and_the_pod_tried_again(
        self, verb: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario(it: Driven) -> None:
            it.server.refusals[verb, "pods"] = ApiError(403, "Forbidden", f"cannot {verb} pods")
            it.server.put(PODS, self.URGENT)
            await for_a_moment()
            assert it.server.node_of("victim") == "n0"
            it.server.refusals.clear()
            await asyncio.sleep(30)
            assert it.server.bound == [("urgent", "n0")]
            assert it.scheduler.evictions.preempting == {}

        driving(scenario, self.VICTIM)
        told = [fields_of(record) for record in caplog.records if "preempt" in record.msg]
        assert {(t["pod"], t["preemptor"], str(t["err"])) for t in told} == {
            ("default/victim", "default/urgent", f"cannot {verb} pods")
        }

    def test_a_victim_that_is_gone_already(self) -> None:
        """Its deletion is known to the server and not to us yet."""

        async def scenario(it: Driven) -> None:
            it.server.stall_watches()
            it.server.remove(PODS, "victim", "default")
            it.server.put(PODS, self.URGENT)
            urgent: Pod = await it.server.get(PODS, "urgent", "default")
            it.driver.apply(urgent)
            await for_a_moment()
            assert it.scheduler.evictions.preempting == {}
            it.server.resume_watches()
            await asyncio.sleep(30)
            assert it.server.bound == [("urgent", "n0")]

        driving(scenario, self.VICTIM)

    def test_a_victim_that_came_back_under_its_name_is_spared(self) -> None:
        async def scenario(it: Driven) -> None:
            held = it.server.hold("delete")
            it.server.put(PODS, self.URGENT)
            await for_a_moment()
            it.server.remove(PODS, "victim", "default")
            it.server.put(PODS, pod("victim", priority=2000))
            held.set()
            await asyncio.sleep(30)
            assert "nodeName" in it.server.pod("victim")["spec"]
            assert it.server.node_of("urgent") == "n0"

        driving(scenario, self.VICTIM)


class TestBugs:
    def test_a_bug_does_not_end_the_loop(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario(it: Driven) -> None:
            schedule_one = it.scheduler.schedule_one
            bugs = [KeyError("first"), ZeroDivisionError("second")]

            def buggy() -> Any:
                if bugs:
                    raise bugs.pop(0)
                return schedule_one()

            monkeypatch.setattr(it.scheduler, "schedule_one", buggy)
            it.server.put(PODS, pod("p"))
            await asyncio.sleep(5)
            assert it.server.bound == [("p", "n0")]
            assert not it.running.done()

        driving(scenario)
        assert "KeyError: 'first'" in caplog.text
        assert "ZeroDivisionError: second" in caplog.text

    def test_nor_does_one_at_the_end_of_a_binding(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario(it: Driven) -> None:
            def broken(*args: Any, **more: Any) -> None:
                raise RuntimeError("who would have thought")

            with monkeypatch.context() as patched:
                patched.setattr(it.scheduler.bindings, "finished", broken)
                it.server.put(PODS, pod("p"))
                await for_a_moment()
            it.server.put(PODS, pod("q"))
            await for_a_moment()
            assert it.server.bound == [("p", "n0"), ("q", "n0")]

        driving(scenario)
        assert "who would have thought" in caplog.text


class TestTheEnd:
    def test_what_is_on_its_way_arrives_and_nothing_new_is_begun(self) -> None:
        async def scenario(it: Driven) -> None:
            held = it.server.hold("post")
            await for_a_moment()
            it.driver.stop()
            it.server.put(PODS, pod("late"))
            await asyncio.sleep(GRACE / 2)
            assert not it.running.done()
            held.set()
            await it.running
            assert it.server.bound == [("p", "n0"), ("q", "n0")]
            await it.recorder.close(10)
            assert len(it.server.notes("Scheduled")) == 2

        driving(scenario, pod("p"), pod("q"))

    def test_and_so_do_its_failures(self) -> None:
        async def scenario(it: Driven) -> None:
            held = it.server.hold("post")
            await for_a_moment()
            it.driver.stop()
            it.server.refusals["post", "pods"] = ApiError(403, "Forbidden", "no bindings on Mondays")
            held.set()
            await it.running
            condition = it.server.condition("p")
            assert condition is not None
            assert "no bindings on Mondays" in condition["message"]

        driving(scenario, pod("p"))

    def test_a_server_that_does_not_answer_is_not_waited_for_forever(self) -> None:
        async def scenario(it: Driven) -> None:
            it.server.hold("post")
            await for_a_moment()
            it.driver.stop()
            began = virtual_time.now()
            await it.running
            assert virtual_time.now() - began == pytest.approx(GRACE, abs=1)
            await asyncio.sleep(60)
            assert it.server.bound == []
            assert it.server.condition("p") is None  # nothing is said of a pod whose fate nobody knows

        driving(scenario, pod("p"))

    def test_an_idle_driver_ends_at_once(self) -> None:
        async def scenario(it: Driven) -> None:
            await for_a_moment()
            began = virtual_time.now()
            it.driver.stop()
            await it.running
            assert virtual_time.now() - began < 0.1

        driving(scenario)

    def test_who_does_not_lead_any_more_does_nothing(self) -> None:
        """Neither bindings nor evictions nor words: another may know better already."""
        leads = True

        async def scenario(it: Driven) -> None:
            nonlocal leads
            await for_a_moment()
            it.server.requests.clear()
            held = it.server.hold("post")
            it.server.cut("post", sent=False)
            it.server.put(PODS, pod("p", cpu="1"))
            await for_a_moment()
            leads = False
            held.set()
            it.server.put(PODS, pod("huge", cpu="64"))
            it.server.put(PODS, pod("urgent", cpu="4", priority=1000))
            await asyncio.sleep(60)
            written = [verb for verb, _ in it.server.requests if verb not in ("get", "list", "watch")]
            assert written == ["post"]
            assert it.server.bound == []

        driving(scenario, pod("victim", on="n0", cpu="1"), may_bind=lambda: leads)

    def test_leadership_lost_ends_what_is_on_its_way(self) -> None:
        async def scenario(it: Driven) -> None:
            held = it.server.hold("post")
            await for_a_moment()
            it.running.cancel()
            await asyncio.gather(it.running, return_exceptions=True)
            held.set()
            await asyncio.sleep(60)
            assert it.server.bound == []

        driving(scenario, pod("p"))
