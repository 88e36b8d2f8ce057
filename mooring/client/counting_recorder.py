"""Events about objects, posted as kubelets and kube-controller-manager post them.

An event that repeats another one is counted in it. Of events that differ only in their messages, the first
few are recorded one by one and the rest are combined. A component that has much to say about an object is
slowed down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TypeVar

from mooring.api.events import CoreEvent, EventSource, truncate_note
from mooring.api.kinds import CORE_EVENTS
from mooring.api.meta import ObjectReference
from mooring.api.times import format_time
from mooring.client.event_queue import (
    MOST_REMEMBERED,
    SECOND,
    EventQueue,
    Repeated,
    event_metadata,
)
from mooring.client.port import Cluster

MOST_SIMILAR = 9  # events of one object and reason that are recorded one by one
SIMILAR_FOR = 600 * SECOND  # without such events until the count restarts
BURST = 25  # events of one component about an object
REFILL = 300 * SECOND  # for one more

Value = TypeVar("Value")


class _Counted(Repeated):
    __slots__ = ("event",)

    def __init__(self, key: Hashable, event: CoreEvent, now: int) -> None:
        super().__init__(key, event.involved_object, event.reason, now)
        self.event = event


class CountingRecorder(EventQueue[_Counted]):
    """Records events of the core group."""

    over_after = 3600 * SECOND  # then the API server has forgotten them

    def __init__(self, cluster: Cluster, *, now: Callable[[], int] = time.time_ns, keep: bool = True) -> None:
        super().__init__(cluster, now=now, keep=keep)
        self._similar: dict[Hashable, tuple[int, set[str]]] = {}  # the longest quiet ones first
        self._budgets: dict[Hashable, tuple[int, float]] = {}

    def emit(
        self, regarding: ObjectReference, type: str, reason: str, message: str, source: EventSource
    ) -> None:
        """Record an event about an object."""
        if not self.keep:
            return
        now = self._stamped()
        about = (regarding.uid or regarding.name, regarding.kind, type, source)
        if not self._affords(about, now):
            self.dropped += 1
            return
        key: Hashable = (about, reason, regarding.field_path, message)
        if self._is_combined((about, reason), message, now):
            key, message = (about, reason), f"(combined from similar events): {message}"
        counted = self._take(key, now)
        if counted is None:
            counted = _Counted(key, _event(regarding, type, reason, source, now), now)
        else:
            counted.count += 1
            counted.last = now
        counted.event.message = truncate_note(message)
        self._put(counted)
        self._remember(counted)

    def _affords(self, about: Hashable, now: int) -> bool:
        then, left = self._budgets.pop(about, (now, float(BURST)))
        left = min(BURST, left + (now - then) / REFILL)
        affords = left >= 1
        _keep(self._budgets, about, (now, left - affords))
        return affords

    def _is_combined(self, alike: Hashable, message: str, now: int) -> bool:
        last, messages = self._similar.pop(alike, (now, set[str]()))
        if last < now - SIMILAR_FOR:
            messages = set()
        if len(messages) < MOST_SIMILAR:
            messages.add(message)
        _keep(self._similar, alike, (now, messages))
        return message not in messages

    def _posted(self, counted: _Counted) -> None:
        if counted.count > counted.sent:
            self._put(counted)

    async def _write(self, counted: _Counted) -> None:
        event = counted.event
        event.count, event.last_timestamp = counted.count, format_time(counted.last / SECOND)
        patch = {"count": event.count, "lastTimestamp": event.last_timestamp, "message": event.message}
        await self._save(CORE_EVENTS, event, patch if counted.sent else None)


def _event(regarding: ObjectReference, type: str, reason: str, source: EventSource, now: int) -> CoreEvent:
    return CoreEvent(
        api_version="v1",
        kind="Event",
        metadata=event_metadata(regarding, now),
        involved_object=regarding,
        reason=reason,
        source=source,
        first_timestamp=format_time(now / SECOND),
        type=type,
        reporting_component=source.component,
        reporting_instance=source.host,
    )


def _keep(memory: dict[Hashable, Value], key: Hashable, value: Value) -> None:
    memory[key] = value
    if len(memory) > MOST_REMEMBERED:
        del memory[next(iter(memory))]
