"""Pods that are being scheduled, and the events that happen meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.framework.events import ClusterEvent

POD_POPPED = "PodPopped"


class Occurrence:
    """A cluster event with its objects, linked to the one after it."""

    __slots__ = ("event", "new", "next", "old")

    def __init__(self, event: ClusterEvent | None, old: Any = None, new: Any = None) -> None:
        self.event = event
        self.old = old
        self.new = new
        self.next: Occurrence | None = None


class InFlight:
    """The pods by UID, each holding the last occurrence before it was popped.

    What happened since is linked from there. An occurrence that no pod in flight precedes has no references
    and is freed: the log needs no pruning, and every operation takes constant time.
    """

    __slots__ = ("_last", "pods")

    def __init__(self) -> None:
        self.pods: dict[str, QueuedPodInfo] = {}
        self._last = Occurrence(None)

    def start(self, queued: QueuedPodInfo) -> None:
        queued.occurrence = self._last
        self.pods[queued.pod.uid] = queued

    def done(self, uid: str) -> QueuedPodInfo | None:
        queued = self.pods.pop(uid, None)
        if queued is not None:
            queued.occurrence = None
        return queued

    def record(self, event: ClusterEvent, old: Any = None, new: Any = None) -> None:
        """Note an event for every pod in flight."""
        latest = Occurrence(event, old, new)
        self._last.next = latest
        self._last = latest

    def record_for(self, uid: str, events: Iterable[ClusterEvent], old: Any, new: Any) -> bool:
        """Note events if that pod is in flight; whether it is."""
        if uid not in self.pods:
            return False
        for event in events:
            self.record(event, old, new)
        return True

    def since_popped(self, uid: str) -> Iterator[tuple[ClusterEvent, Any, Any]] | None:
        """What happened since a pod was popped; None if it is not in flight."""
        queued = self.pods.get(uid)
        return None if queued is None else _after(queued.occurrence)

    def counts(self) -> dict[str, int]:
        """The events held, by label, and the pods under "PodPopped"."""
        counts = Counter({POD_POPPED: len(self.pods)})
        for queued in self.pods.values():  # the first popped holds the most: all the others' and its own
            counts.update(event.name for event, _, _ in _after(queued.occurrence))
            break
        return dict(counts)


def _after(occurrence: Occurrence | None) -> Iterator[tuple[ClusterEvent, Any, Any]]:
    while occurrence is not None:
        occurrence = occurrence.next
        if occurrence is not None and occurrence.event is not None:
            yield occurrence.event, occurrence.old, occurrence.new
