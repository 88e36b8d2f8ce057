"""Pod statuses: merged while they wait, in order for each pod, and nothing about pods that have a node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from mooring.api.kinds import PODS
from mooring.api.meta import Condition
from mooring.api.objects import Pod
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError
from mooring.core.effects import PatchPodStatus
from mooring.framework.pod import PodInfo, Shapes
from mooring.process.status_writer import TRIES, WORKERS, StatusWriter, status_patch
from tests.client import virtual_time
from tests.process.driven import START, Server, pod


def refused(message: str) -> Condition:
    return Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)


class Writing:
    """A status writer, its server, and the pods that have got a node."""

    def __init__(self) -> None:
        self.server = Server()
        self.placed: set[str] = set()
        self.writer = StatusWriter(self.server, lambda: START, lambda uid: uid not in self.placed)

    def info(self, name: str) -> PodInfo:
        """A pod as it is now; it is created where there is none."""
        if ("pods", "default", name) not in self.server.objects:
            self.server.put(PODS, pod(name))
        found = msgspec.convert(self.server.pod(name), Pod)
        return PodInfo.of(found, Shapes().of(found))

    def put(self, name: str, message: str = "", nominated: str | None = None) -> None:
        condition = refused(message) if message else None
        self.writer.put(PatchPodStatus(self.info(name), condition, nominated))

    def told(self, name: str) -> list[str]:
        """All messages that the server ever had about a pod."""
        versions = [entry.after for entry in self.server.history if entry.after is not None]
        mine = [tree.get("status", {}) for tree in versions if tree["metadata"]["name"] == name]
        return [condition["message"] for status in mine for condition in status.get("conditions", [])]


def writing(scenario: Callable[[Writing], Awaitable[None]]) -> None:
    async def main() -> None:
        it = Writing()
        running = asyncio.create_task(it.writer.run())
        try:
            await scenario(it)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    virtual_time.run(main())


class TestPatch:
    def test_the_time_of_transition_is_told_where_the_status_changes(self) -> None:
        patch = status_patch(Writing().info("p"), refused("full"), None, START)
        (condition,) = patch["status"]["conditions"]
        assert condition["lastTransitionTime"] == format_time(START)
        assert set(patch) == {"metadata", "status"}
        assert set(patch["status"]) == {"conditions"}

    def test_and_left_alone_where_it_does_not(self) -> None:
        it = Writing()
        it.server.put(PODS, pod("p", status={"conditions": [{"type": "PodScheduled", "status": "False"}]}))
        patch = status_patch(it.info("p"), refused("still full"), None, START)
        assert "lastTransitionTime" not in patch["status"]["conditions"][0]

    @pytest.mark.parametrize(("nominated", "written"), [("n1", "n1"), ("", None)])
    def test_a_nomination_is_written_and_taken_back(self, nominated: str, written: str | None) -> None:
        patch = status_patch(Writing().info("p"), None, nominated, START)
        assert patch["status"] == {"nominatedNodeName": written}


class TestOrder:
    def test_what_is_overtaken_is_never_sent(self) -> None:
        async def scenario(it: Writing) -> None:
            held = it.server.hold("patch")
            for message in ("one", "two", "three"):
                it.put("p", message)
                await asyncio.sleep(1)
            held.set()
            await it.writer.flush()
            assert it.told("p") == ["one", "three"]

        writing(scenario)

    def test_parts_that_the_later_one_says_nothing_about_are_kept(self) -> None:
        async def scenario(it: Writing) -> None:
            held = it.server.hold("patch")
            it.put("p", "busy")
            await asyncio.sleep(1)
            it.put("p", "full", "n1")
            it.put("p", "fuller")
            it.put("q", "", "n1")
            it.put("q", "full", "")
            held.set()
            await it.writer.flush()
            assert it.told("p") == ["busy", "fuller"]
            assert it.server.pod("p")["status"]["nominatedNodeName"] == "n1"
            assert it.told("q") == ["full"]
            assert "nominatedNodeName" not in it.server.pod("q")["status"]

        writing(scenario)

    def test_one_request_at_a_time_for_each_pod_and_many_for_all(self) -> None:
        async def scenario(it: Writing) -> None:
            held = it.server.hold("patch")
            for turn in range(3):
                for i in range(2 * WORKERS):
                    it.put(f"p{i}", f"{turn}")
                await asyncio.sleep(1)
            under_way = it.server.asked("patch")
            assert len(under_way) == len(set(under_way)) == WORKERS
            held.set()
            await it.writer.flush()
            assert it.server.condition("p0") is not None
            for i in range(2 * WORKERS):
                assert it.told(f"p{i}") == (["0", "2"] if i < WORKERS else ["2"])

        writing(scenario)

    def test_a_pod_that_got_a_node_meanwhile(self) -> None:
        async def scenario(it: Writing) -> None:
            held = it.server.hold("patch")
            for i in range(WORKERS):
                it.put(f"busy{i}", "full")
            it.put("p", "full")
            await asyncio.sleep(1)
            it.placed.add(it.info("p").uid)
            held.set()
            await it.writer.flush()
            assert it.told("p") == []

        writing(scenario)

    def test_settled_waits_for_what_is_on_its_way(self) -> None:
        async def scenario(it: Writing) -> None:
            held = it.server.hold("patch")
            it.put("p", "full")
            await asyncio.sleep(1)
            settled = asyncio.create_task(it.writer.settled(it.info("p").uid))
            await it.writer.settled(it.info("other").uid)
            await asyncio.sleep(1)
            assert not settled.done()
            held.set()
            await settled
            assert it.told("p") == ["full"]

        writing(scenario)

    def test_settled_waits_for_all_that_is_on_its_way(self) -> None:
        """A pod that is to be bound may be marked as a victim of preemption meanwhile."""

        async def scenario(it: Writing) -> None:
            held, info = it.server.hold("patch"), it.info("p")
            it.put("p", "full")
            await asyncio.sleep(1)
            mark = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
            marking = asyncio.create_task(it.writer.write(PatchPodStatus(info, mark)))
            await asyncio.sleep(1)
            marking.cancel()
            settled = asyncio.create_task(it.writer.settled(info.uid))
            await asyncio.sleep(1)
            assert not settled.done()
            held.set()
            await settled

        writing(scenario)


class TestFailures:
    @pytest.mark.parametrize("sent", [False, True])
    def test_a_server_that_is_away_is_told_once_and_tried_again(
        self, sent: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario(it: Writing) -> None:
            it.server.cut("patch", 20, sent=sent)
            for i in range(20):
                it.put(f"p{i}", "full")
            await it.writer.flush()
            assert all(it.told(f"p{i}")[-1] == "full" for i in range(20))

        writing(scenario)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "cannot write pod statuses: fake: connection re" in caplog.text

    def test_a_pod_that_keeps_failing_is_given_up(self) -> None:
        async def scenario(it: Writing) -> None:
            it.server.refusals["patch", "pods"] = ApiError(500, "InternalError", "out of memory")
            it.put("unlucky", "full")
            await asyncio.sleep(1)
            assert it.server.asked("patch")
            await it.writer.flush()
            assert len(it.server.asked("patch")) == TRIES
            assert it.told("unlucky") == []

        writing(scenario)

    def test_news_that_come_while_it_is_away_win(self) -> None:
        async def scenario(it: Writing) -> None:
            it.server.cut("patch", 3, sent=False)
            it.put("p", "old", "n1")
            await asyncio.sleep(0.5)
            it.put("p", "new")
            await it.writer.flush()
            assert it.told("p") == ["new"]
            assert it.server.pod("p")["status"]["nominatedNodeName"] == "n1"

        writing(scenario)

    def test_a_refusal_names_the_pod_and_is_not_repeated(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scenario(it: Writing) -> None:
            it.server.refusals["patch", "pods"] = ApiError(403, "Forbidden", "cannot patch pods/status")
            it.put("p", "full")
            await it.writer.flush()
            await asyncio.sleep(600)
            assert len(it.server.asked("patch")) == 1
            it.server.refusals.clear()
            it.put("p", "full")
            await it.writer.flush()
            assert it.told("p") == ["full"]

        writing(scenario)
        (record,) = caplog.records
        fields = record.fields  # type: ignore[attr-defined]
        assert (fields["pod"], str(fields["err"])) == ("default/p", "cannot patch pods/status")

    def test_a_pod_that_is_gone_or_another_is_no_trouble(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scenario(it: Writing) -> None:
            it.put("gone", "full")
            it.put("another", "full")
            for name in ("gone", "another"):
                it.server.remove(PODS, name, "default")
            it.server.put(PODS, pod("another"))
            await it.writer.flush()
            assert it.told("another") == []

        writing(scenario)
        assert caplog.text == ""
