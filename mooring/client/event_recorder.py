"""Events about objects, posted as kube-scheduler's recorder posts them.

The first event of its kind about an object is created. Those that follow within six minutes are a series: the
second one is written into the first at once, and later ones are counted here, and written when half an hour
has passed or when the series is over. Events are of one kind where all but the note is the same. What they
are about is meant with its resource version: once the object has changed, a new event says the new note.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Hashable

import msgspec

from mooring.api.events import Event, EventSeries, truncate_note
from mooring.api.kinds import EVENTS
from mooring.api.meta import ObjectReference
from mooring.api.times import format_time
from mooring.client.event_queue import SECOND, EventQueue, Repeated, event_metadata
from mooring.client.port import Cluster

FINISHED_AFTER = 360 * SECOND  # of quiet
REFRESH_AFTER = 1800 * SECOND  # so that a series outlives the API server's patience with events (an hour)
LONGEST_INSTANCE = 128


class _Series(Repeated):
    """An event of events.k8s.io; `sent_at` is when it was last written."""

    __slots__ = ("event", "sent_at")

    def __init__(self, key: Hashable, event: Event, now: int) -> None:
        super().__init__(key, event.regarding, event.reason, now)
        self.event = event
        self.sent_at = 0


class EventRecorder(EventQueue[_Series]):
    """Records events of the group events.k8s.io. `controller` is the default reporting controller."""

    over_after = FINISHED_AFTER

    def __init__(
        self,
        cluster: Cluster,
        controller: str,
        host: str | None = None,
        *,
        now: Callable[[], int] = time.time_ns,
        keep: bool = True,
    ) -> None:
        super().__init__(cluster, now=now, keep=keep)
        self._controller = controller
        self._host = socket.gethostname() if host is None else host

    def emit(
        self,
        regarding: ObjectReference,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "",
    ) -> None:
        """Record an event about an object."""
        if not self.keep:
            return
        controller = controller or self._controller
        now = self._stamped()
        key = (regarding, type, reason, action, controller)
        series = self._take(key, now)
        if series is None:
            event = self._event(regarding, type, reason, action, note, controller, now)
            series = _Series(key, event, now)
            self._put(series)
        else:
            series.count += 1
            series.last = now
            if series.sent == 1 or now - series.sent_at >= REFRESH_AFTER:
                self._put(series)
        self._remember(series)

    def _event(
        self,
        regarding: ObjectReference,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str,
        now: int,
    ) -> Event:
        return Event(
            api_version=EVENTS.api_version,
            kind="Event",
            metadata=event_metadata(regarding, now),
            event_time=_micro_time(now),
            reporting_controller=controller,
            reporting_instance=f"{controller}-{self._host}"[:LONGEST_INSTANCE],
            action=action,
            reason=reason,
            regarding=regarding,
            note=truncate_note(note),
            type=type,
        )

    def _posted(self, series: _Series) -> None:
        series.sent_at = self._now()
        if series.sent == 1 < series.count or self._known.get(series.key) is not series:
            self._finish(series)

    async def _write(self, series: _Series) -> None:
        event = series.event
        if series.count > 1:
            series_now = EventSeries(count=series.count, last_observed_time=_micro_time(series.last))
            event = msgspec.structs.replace(event, series=series_now)
        await self._save(EVENTS, event, {"series": event.series} if series.sent else None)


def _micro_time(nanoseconds: int) -> str:
    return format_time(nanoseconds / SECOND, micro=True)
