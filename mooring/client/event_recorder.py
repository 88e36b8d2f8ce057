"""Events about objects, posted as kube-scheduler's recorder posts them.

The first event of its kind about an object is created. Those that follow within six minutes are a series: the
second one is written into the first at once, and later ones are counted here, and written when half an hour
has passed or when the series is over. Events are of one kind where all but the note is the same. What they
are about is meant with its resource version: once the object has changed, a new event says the new note.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import time
import uuid
from collections.abc import Callable

import msgspec

from mooring.api.events import Event, EventSeries, truncate_note
from mooring.api.kinds import EVENTS
from mooring.api.meta import ObjectMeta, ObjectReference
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.backoff import Backoff
from mooring.client.port import Cluster, PatchType

log = logging.getLogger("mooring.events")

SECOND = 1_000_000_000  # times are whole nanoseconds
FINISHED_AFTER = 360 * SECOND  # of quiet
REFRESH_AFTER = 1800 * SECOND  # so that a series outlives the API server's patience with events (an hour)
WORKERS = 16  # posts under way at a time
MOST_QUEUED = 10_000
TURN = 64  # posts before others on the event loop have their turn, where answers need not be waited for
MOST_REMEMBERED = 10_000  # for series; only the oldest are forgotten, so a burst costs repeats, not memory
TRIES = 8  # over about two minutes, as client-go
LONGEST_RETRY_AFTER = 60.0
LONGEST_NAME = 253
LONGEST_INSTANCE = 128


_Key = tuple[ObjectReference, str, str, str, str, str]


class _Series:
    """An event and its repeats. `sent` is how many of them the API server knows of."""

    __slots__ = ("count", "event", "key", "last", "sent", "sent_at", "waiting")

    def __init__(self, key: _Key, event: Event, now: int) -> None:
        self.key = key
        self.event = event
        self.count = 1
        self.last = now
        self.sent = 0
        self.sent_at = 0
        self.waiting = False  # queued, or being posted


class EventRecorder:
    """Queues events; `run` posts them. All methods must be called on the event loop.

    `controller` is the default reporting controller. Without `keep`, events are dropped.
    """

    def __init__(
        self,
        cluster: Cluster,
        controller: str,
        host: str | None = None,
        *,
        now: Callable[[], int] = time.time_ns,
        keep: bool = True,
    ) -> None:
        self.dropped = 0  # events that were given up, for metrics
        self._cluster = cluster
        self._controller = controller
        self._host = socket.gethostname() if host is None else host
        self._now = now
        self._keep = keep
        self._stamp = 0
        self._series: dict[_Key, _Series] = {}  # the longest quiet ones first
        self._queue: asyncio.Queue[_Series] = asyncio.Queue()
        self._closed = asyncio.Event()
        self._overflowing = False
        self._unreachable = False
        self._rejected: set[tuple[int, str, str]] = set()

    def emit(
        self,
        regarding: ObjectReference,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "",
        *,
        apart: str = "",
    ) -> None:
        """Record an event about an object. Events with different `apart` never form a series."""
        if not self._keep:
            return
        controller = controller or self._controller
        now = self._stamp = max(self._now(), self._stamp + 1)  # names are made of it: never the same twice
        key = (regarding, type, reason, action, controller, apart)
        series = self._series.pop(key, None)
        if series is None or series.last < now - FINISHED_AFTER:
            if series is not None:
                self._finish(series)
            event = self._event(regarding, type, reason, action, note, controller, now)
            series = _Series(key, event, now)
            if len(self._series) >= MOST_REMEMBERED:
                self._finish(self._series.pop(next(iter(self._series))))
            self._put(series)
        else:
            series.count += 1
            series.last = now
            if series.sent == 1 or now - series.sent_at >= REFRESH_AFTER:
                self._put(series)
        self._series[key] = series

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
        name = f"{regarding.name}.{now:x}"
        if len(name) > LONGEST_NAME:
            name = str(uuid.uuid4())
        return Event(
            api_version=EVENTS.api_version,
            kind="Event",
            metadata=ObjectMeta(name=name, namespace=regarding.namespace or "default"),
            event_time=_micro_time(now),
            reporting_controller=controller,
            reporting_instance=f"{controller}-{self._host}"[:LONGEST_INSTANCE],
            action=action,
            reason=reason,
            regarding=regarding,
            note=truncate_note(note),
            type=type,
        )

    # ---- the queue

    def _put(self, series: _Series) -> None:
        if series.waiting:
            return
        if self._closed.is_set():
            self.dropped += 1
            return
        if self._queue.qsize() >= MOST_QUEUED:
            self._drop_oldest()
        series.waiting = True
        self._queue.put_nowait(series)

    def _drop_oldest(self) -> None:
        oldest = self._queue.get_nowait()
        self._queue.task_done()
        self._forget(oldest)
        if not self._overflowing:
            self._overflowing = True
            log.warning("the API server is too slow for the events; dropping the oldest of %d", MOST_QUEUED)

    def _forget(self, series: _Series) -> None:
        """Drop an event; the next of its kind starts a new series."""
        self.dropped += 1
        series.waiting = False
        if self._series.get(series.key) is series:
            del self._series[series.key]

    def _finish(self, series: _Series) -> None:
        """A series is over: the API server is to know how many they were."""
        if series.count > max(series.sent, 1):
            self._put(series)

    # ---- posting

    async def run(self) -> None:
        """Post what is recorded, until closed."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._work()) for _ in range(WORKERS if self._keep else 0)]
            if self._keep:
                tasks.append(group.create_task(self._finish_quiet()))
            await self._closed.wait()
            for task in tasks:
                task.cancel()

    async def close(self, timeout: float) -> None:
        """Post what is left, for so many seconds at most, and end `run`."""
        for series in self._series.values():
            self._finish(series)
        try:
            async with asyncio.timeout(timeout):
                await self._queue.join()
        except TimeoutError:
            log.warning("events not posted within %g s of shutdown: %d", timeout, self._queue.qsize())
        self._closed.set()

    async def _finish_quiet(self) -> None:
        while True:
            await asyncio.sleep(60)
            quiet_since = self._now() - FINISHED_AFTER
            while self._series:
                key, series = next(iter(self._series.items()))
                if series.last > quiet_since:
                    break
                del self._series[key]
                self._finish(series)

    async def _work(self) -> None:
        for count in itertools.count(1):
            if count % TURN == 0:
                await asyncio.sleep(0)
            series = await self._queue.get()
            if self._overflowing and self._queue.empty():
                self._overflowing = False
            try:
                await self._post(series)
            except Exception as error:  # a bug; later events may be luckier
                log.error("cannot post an event about %s", series.event.regarding.name, exc_info=error)
                self._forget(series)
            finally:
                self._queue.task_done()

    async def _post(self, series: _Series) -> None:
        """Bring the API server up to date about a series, with as many tries as are worth it."""
        count = series.count
        backoff: Backoff | None = None
        for left in reversed(range(TRIES)):
            try:
                await self._write(series)
            except Unreachable as failure:
                retry_after = 0.0
                self._report_unreachable(failure)
            except ApiError as refusal:
                if not refusal.transient:
                    self._report_rejected(series.event, refusal)
                    break
                retry_after = min(refusal.retry_after or 0.0, LONGEST_RETRY_AFTER)
                self._report_unreachable(refusal)
            else:
                self._unreachable = False
                series.sent, series.sent_at, series.waiting = count, self._now(), False
                if count == 1 < series.count or self._series.get(series.key) is not series:
                    self._finish(series)
                return
            if left:
                backoff = backoff or Backoff()
                await asyncio.sleep(max(backoff.wait(), retry_after))
        self._forget(series)

    async def _write(self, series: _Series) -> None:
        event, namespace = series.event, series.event.metadata.namespace
        if series.count > 1:
            series_now = EventSeries(count=series.count, last_observed_time=_micro_time(series.last))
            event = msgspec.structs.replace(event, series=series_now)
        if series.sent:
            try:
                patch = {"series": event.series}
                await self._cluster.patch(EVENTS, event.name, patch, namespace, kind=PatchType.STRATEGIC)
                return
            except ApiError as refusal:
                if not refusal.not_found:  # else it expired: create it again
                    raise
        try:
            await self._cluster.post(EVENTS, "", "", event, namespace)
        except ApiError as refusal:
            if not refusal.conflict:  # else an earlier try got through, of which we had no answer
                raise

    def _report_unreachable(self, failure: Exception) -> None:
        if not self._unreachable:
            self._unreachable = True
            log.warning("cannot post events: %s; retrying", failure)

    def _report_rejected(self, event: Event, refusal: ApiError) -> None:
        """Once for each namespace and cause; there may be many events."""
        case = (refusal.code, refusal.reason, event.namespace)
        if case not in self._rejected and len(self._rejected) < 1000:
            self._rejected.add(case)
            log.warning(
                'event "%s" about %s %s/%s rejected, and others like it: %s',
                event.reason, event.regarding.kind, event.namespace, event.regarding.name, refusal,
            )  # fmt: skip


def _micro_time(nanoseconds: int) -> str:
    return format_time(nanoseconds / SECOND, micro=True)
