"""The event recorder on a small API server in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mooring.api.meta import KubeObject, ObjectMeta, ObjectReference
from mooring.client import event_queue as events
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.event_recorder import EventRecorder
from tests.client import virtual_time
from tests.client.fake_cluster import FakeCluster, Tree

MINUTE = 60.0
EPOCH = 1_893_455_000  # 1000 s, where virtual time begins, before 2030

Scenario = Callable[[FakeCluster, EventRecorder], Awaitable[None]]


def recording(scenario: Scenario, host: str = "host-1") -> FakeCluster:
    async def main() -> FakeCluster:
        cluster, loop = FakeCluster(), asyncio.get_running_loop()
        recorder = EventRecorder(
            cluster,
            "default-scheduler",
            host,
            now=lambda: EPOCH * events.SECOND + round(loop.time() * events.SECOND),
        )
        task = asyncio.create_task(recorder.run())
        await scenario(cluster, recorder)
        await recorder.close(1)
        await task
        return cluster

    return virtual_time.run(main())


Emission = tuple[ObjectReference, str, str, str, str]
"""What an event is about, its type, reason, action and note."""


def failed(
    name: str = "web", note: str = "0/1 nodes are available", version: str = "7", namespace: str = "default"
) -> Emission:
    meta = ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", resource_version=version)
    regarding = KubeObject(metadata=meta).reference("Pod", "v1")
    return regarding, "Warning", "FailedScheduling", "Scheduling", note


def stored(cluster: FakeCluster) -> list[Tree]:
    return list(cluster.objects.values())


def the_event(cluster: FakeCluster) -> Tree:
    (event,) = stored(cluster)
    return event


async def settled() -> None:
    await asyncio.sleep(0.001)


# ---- single events


def test_an_event_has_the_fields_that_kube_scheduler_gives_it() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        recorder.emit(*failed())
        await settled()

    event = the_event(recording(scenario))
    metadata = event.pop("metadata")
    assert metadata["name"] == f"web.{1_893_456_000 * events.SECOND:x}"
    assert len(metadata["name"]) == len("web.") + 16
    assert metadata["namespace"] == "default"
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host-1",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "web",
            "uid": "uid-web",
            "resourceVersion": "7",
        },
        "note": "0/1 nodes are available",
        "type": "Warning",
    }


def test_events_are_reported_by_the_controller_named_or_the_default_one() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        recorder.emit(*failed("a"), "packer")
        recorder.emit(*failed("b"))
        await settled()

    cluster = recording(scenario)
    reporters = ["packer", "default-scheduler"]
    assert [event["reportingController"] for event in stored(cluster)] == reporters
    assert [event["reportingInstance"] for event in stored(cluster)] == [f"{r}-host-1" for r in reporters]


def test_what_the_api_server_would_refuse_is_made_to_fit() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        recorder.emit(*failed("p" * 250, note="é" * 1000))
        node = ObjectReference(kind="Node", name="n1")
        recorder.emit(node, "Normal", "Reason", "Action", "note")
        await settled()

    long, of_node = stored(recording(scenario, host="h" * 200))
    assert len(long["metadata"]["name"]) == 36  # a UUID
    assert len(long["note"].encode()) <= 1024
    assert of_node["metadata"]["namespace"] == "default"
    assert len(of_node["reportingInstance"]) == 128


def test_events_of_the_same_moment_have_names_of_their_own() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        for version in range(20):
            recorder.emit(*failed(version=str(version)))
        await settled()

    assert len({event["metadata"]["name"] for event in stored(recording(scenario))}) == 20


# ---- series


def test_the_first_repeat_is_written_at_once_and_the_rest_when_the_series_is_over() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        recorder.emit(*failed())
        await asyncio.sleep(10)
        recorder.emit(*failed(note="another note: not what tells events apart"))
        await settled()
        assert the_event(cluster)["series"] == {"count": 2, "lastObservedTime": "2030-01-01T00:00:10.000000Z"}
        for _ in range(5):
            await asyncio.sleep(5)
            recorder.emit(*failed())
        await settled()
        assert the_event(cluster)["series"]["count"] == 2
        await asyncio.sleep(8 * MINUTE)
        assert the_event(cluster)["series"] == {"count": 7, "lastObservedTime": "2030-01-01T00:00:35.001000Z"}
        assert the_event(cluster)["note"] == "0/1 nodes are available"
        assert len(cluster.asked("patch")) == 2

    recording(scenario)


def test_repeats_before_the_first_was_posted_make_one_post_and_one_patch() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        async def slowly(verb: str, done: bool) -> None:
            await asyncio.sleep(1)

        cluster.meddle = slowly
        recorder.emit(*failed())
        await asyncio.sleep(0.5)
        for _ in range(9):
            recorder.emit(*failed())
        await asyncio.sleep(10)
        assert the_event(cluster)["series"]["count"] == 10
        assert [verb for verb, _ in cluster.requests] == ["create", "patch"]

    recording(scenario)


@pytest.mark.parametrize(
    "other",
    [
        failed(version="8"),
        failed("web-2"),
        (failed()[0], "Normal", "FailedScheduling", "Scheduling", "x"),
        (failed()[0], "Warning", "Scheduled", "Scheduling", "x"),
        (failed()[0], "Warning", "FailedScheduling", "Binding", "x"),
    ],
)
def test_events_that_differ_are_no_series(other: Emission) -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        recorder.emit(*failed())
        recorder.emit(*other)
        await settled()

    cluster = recording(scenario)
    assert len(stored(cluster)) == 2
    assert not any("series" in event for event in stored(cluster))


def test_after_six_quiet_minutes_a_repeat_is_a_new_event() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        recorder.emit(*failed())
        await asyncio.sleep(5.9 * MINUTE)
        recorder.emit(*failed())
        await asyncio.sleep(6.1 * MINUTE)
        recorder.emit(*failed())
        await settled()
        first, second = stored(cluster)
        assert first["series"]["count"] == 2
        assert "series" not in second

    recording(scenario)


def test_a_long_series_is_refreshed_every_half_hour_lest_it_expires() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        for _ in range(121):  # two hours
            recorder.emit(*failed())
            await asyncio.sleep(MINUTE)
        assert len(stored(cluster)) == 1
        assert 4 <= len(cluster.asked("patch")) <= 5

    recording(scenario)


def test_a_series_whose_event_expired_is_created_anew() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        recorder.emit(*failed())
        await settled()
        name = the_event(cluster)["metadata"]["name"]
        cluster.objects.clear()
        recorder.emit(*failed())
        await settled()
        assert the_event(cluster)["metadata"]["name"] == name
        assert the_event(cluster)["series"]["count"] == 2

    recording(scenario)


def test_only_so_many_series_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_REMEMBERED", 3)

    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        for _ in range(3):
            recorder.emit(*failed("counted"))
            await settled()
        for name in "abc":  # push it out: the last count is written
            recorder.emit(*failed(name))
        await settled()
        counted = [e for e in stored(cluster) if e["regarding"]["name"] == "counted"]
        assert [event["series"]["count"] for event in counted] == [3]
        recorder.emit(*failed("counted"))
        await settled()
        assert len(stored(cluster)) == 5

    recording(scenario)


# ---- trouble


def test_a_server_out_of_reach_is_tried_again_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        cluster.refusals["create", "events"] = Unreachable("https://10.0.0.1", "connection refused")
        for name in "abc":
            recorder.emit(*failed(name))
        await asyncio.sleep(20)
        cluster.refusals["create", "events"] = ApiError(503, "ServiceUnavailable", "starting")
        await asyncio.sleep(20)
        assert stored(cluster) == []
        cluster.refusals.clear()
        await asyncio.sleep(MINUTE)
        assert len(stored(cluster)) == 3
        assert recorder.dropped == 0
        assert caplog.text.count("cannot post events") == 1

    recording(scenario)


def test_an_event_is_given_up_after_some_tries() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        cluster.refusals["create", "events"] = Unreachable("https://10.0.0.1", "connection refused")
        recorder.emit(*failed())
        await asyncio.sleep(250)  # each wait may be stretched to twice its length
        assert len(cluster.asked("create")) == events.TRIES
        assert recorder.dropped == 1
        cluster.refusals.clear()
        recorder.emit(*failed())  # what follows is no repeat of what nobody knows of
        await settled()
        assert "series" not in the_event(cluster)

    recording(scenario)


def test_an_event_whose_answer_was_lost_is_not_taken_for_refused() -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        async def lose_the_answer(verb: str, done: bool) -> None:
            if done:
                cluster.meddle = None
                raise Unreachable("https://10.0.0.1", "connection reset")

        cluster.meddle = lose_the_answer
        recorder.emit(*failed())
        await asyncio.sleep(10)
        assert len(cluster.asked("create")) == 2
        assert recorder.dropped == 0
        recorder.emit(*failed())
        await settled()
        assert the_event(cluster)["series"]["count"] == 2

    recording(scenario)


def test_events_that_are_refused_are_dropped_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        cluster.refusals["create", "events"] = ApiError(403, "Forbidden", "events are forbidden")
        for name in "abc":
            recorder.emit(*failed(name))
        await asyncio.sleep(MINUTE)
        assert len(cluster.asked("create")) == 3
        assert recorder.dropped == 3
        assert caplog.text.count("events are forbidden") == 1
        assert 'event "FailedScheduling" about Pod default/a' in caplog.text

    recording(scenario)


def test_events_of_a_namespace_that_is_being_deleted_are_dropped_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        details = {"causes": [{"reason": "NamespaceTerminating"}]}
        cluster.refusals["create", "events"] = ApiError(403, "Forbidden", "is forbidden", details=details)
        recorder.emit(*failed("a"))
        await asyncio.sleep(MINUTE)
        assert recorder.dropped == 1
        assert not caplog.text

    recording(scenario)


def test_the_oldest_events_are_dropped_where_too_many_wait(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_QUEUED", 10)

    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        under_way = most = 0

        async def slowly(verb: str, done: bool) -> None:
            nonlocal under_way, most
            if not done:
                under_way += 1
                most = max(most, under_way)
                await asyncio.sleep(1)
                under_way -= 1

        cluster.meddle = slowly
        await settled()
        for number in range(40):
            recorder.emit(*failed(f"p{number}"))
            await asyncio.sleep(0)
        await asyncio.sleep(MINUTE)
        names = {event["regarding"]["name"] for event in stored(cluster)}
        first = events.WORKERS
        assert names == {f"p{number}" for number in [*range(first), *range(30, 40)]}
        assert recorder.dropped == 40 - first - 10
        assert most == events.WORKERS
        assert caplog.text.count("is too slow for the events") == 1

    recording(scenario)


def test_closing_posts_what_is_left_but_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster, recorder: EventRecorder) -> None:
        async def slowly(verb: str, done: bool) -> None:
            await asyncio.sleep(0.1)

        cluster.meddle = slowly
        for _ in range(3):
            recorder.emit(*failed("series"))
            await asyncio.sleep(1)
        for number in range(100):
            recorder.emit(*failed(f"p{number}"))
        await recorder.close(30)
        assert len(stored(cluster)) == 101
        assert [event["series"]["count"] for event in stored(cluster) if "series" in event] == [3]
        recorder.emit(*failed("too-late"))
        assert recorder.dropped == 1

    recording(scenario)

    async def hopeless(cluster: FakeCluster, recorder: EventRecorder) -> None:
        cluster.refusals["create", "events"] = Unreachable("https://10.0.0.1", "connection refused")
        recorder.emit(*failed())
        before = virtual_time.now()
        await recorder.close(5)
        assert virtual_time.now() - before == pytest.approx(5)

    recording(hopeless)
    assert "not posted within 5 s" in caplog.text
