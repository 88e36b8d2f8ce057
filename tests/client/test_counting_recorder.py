"""The recorder of kubelets and controllers on a small API server in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from mooring.api.events import EventSource
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.event_queue import SECOND
from tests.client import virtual_time
from tests.client.fake_cluster import FakeCluster, Tree

EPOCH = 1_893_455_000  # 1000 s, where virtual time begins, before 2030
KUBELET = EventSource("kubelet", "node-1")

Scenario = Callable[[CountingRecorder], Awaitable[None]]


def record(scenario: Scenario) -> list[Tree]:
    """Return the events that a scenario leaves, in the order they were created."""

    async def main() -> list[Tree]:
        cluster, loop = FakeCluster(), asyncio.get_running_loop()
        recorder = CountingRecorder(cluster, now=lambda: EPOCH * SECOND + round(loop.time() * SECOND))
        task = asyncio.create_task(recorder.run())
        await scenario(recorder)
        await recorder.close(1)
        await task
        return sorted(cluster.objects.values(), key=lambda event: event["metadata"]["name"])

    return virtual_time.run(main())


def emit(
    recorder: CountingRecorder, message: str, source: EventSource = KUBELET, container: str = "main"
) -> None:
    meta = ObjectMeta(name="web", namespace="default", uid="uid-web", resource_version="7")
    about = KubeObject(metadata=meta).reference("Pod", "v1")
    about = msgspec.structs.replace(about, field_path=f"spec.containers{{{container}}}")
    recorder.emit(about, "Warning", "BackOff", message, source)


def test_a_repeated_event_is_counted_at_once() -> None:
    async def scenario(recorder: CountingRecorder) -> None:
        for _ in range(3):
            emit(recorder, "Back-off restarting failed container")
            await asyncio.sleep(10)

    (event,) = record(scenario)
    metadata = event.pop("metadata")
    assert (metadata["namespace"], metadata["name"][:4]) == ("default", "web.")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "web",
            "uid": "uid-web",
            "resourceVersion": "7",
            "fieldPath": "spec.containers{main}",
        },
        "reason": "BackOff",
        "message": "Back-off restarting failed container",
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:20Z",
        "count": 3,
        "type": "Warning",
        "reportingComponent": "kubelet",
        "reportingInstance": "node-1",
    }


def test_events_of_other_containers_and_sources_are_not_repeats() -> None:
    async def scenario(recorder: CountingRecorder) -> None:
        emit(recorder, "m")
        emit(recorder, "m", container="other")
        emit(recorder, "m", EventSource("kubelet", "node-2"))
        emit(recorder, "m")

    assert [event["count"] for event in record(scenario)] == [2, 1, 1]


def test_many_similar_events_are_combined() -> None:
    async def scenario(recorder: CountingRecorder) -> None:
        for i in range(12):
            emit(recorder, f"message {i}")
            await asyncio.sleep(1)
        emit(recorder, "message 3")

    *single, combined = record(scenario)
    assert [event["message"] for event in single] == [f"message {i}" for i in range(9)]
    assert [event["count"] for event in single] == [1, 1, 1, 2, 1, 1, 1, 1, 1]
    assert (combined["message"], combined["count"]) == ("(combined from similar events): message 11", 3)


def test_a_component_with_much_to_say_is_slowed_down() -> None:
    async def scenario(recorder: CountingRecorder) -> None:
        for _ in range(100):
            emit(recorder, "m")
        await asyncio.sleep(600)
        for _ in range(100):
            emit(recorder, "m")

    (event,) = record(scenario)
    assert event["count"] == 25 + 2
