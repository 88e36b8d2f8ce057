"""Events on their way to the API server."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import ClassVar, Generic, TypeVar

from mooring.api.kinds import ApiResource
from mooring.api.meta import ObjectMeta, ObjectReference, Tree
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.backoff import Backoff
from mooring.client.port import Cluster, Obj, PatchType

log = logging.getLogger("mooring.events")

SECOND = 1_000_000_000  # times are whole nanoseconds
WORKERS = 16  # posts under way at a time
MOST_QUEUED = 10_000
TURN = 64  # posts before others on the event loop have their turn, where answers need not be waited for
MOST_REMEMBERED = 10_000  # only the oldest are forgotten, so a burst costs repeats, not memory
TRIES = 8  # over about two minutes, as client-go
LONGEST_RETRY_AFTER = 60.0
LONGEST_NAME = 253


class Repeated:
    """An event and its repeats. `sent` is how many of them the API server knows of."""

    __slots__ = ("count", "key", "last", "reason", "regarding", "sent", "waiting")

    def __init__(self, key: Hashable, regarding: ObjectReference, reason: str, now: int) -> None:
        self.key = key
        self.regarding = regarding
        self.reason = reason
        self.count = 1
        self.last = now
        self.sent = 0
        self.waiting = False  # queued, or being posted


AnyRepeated = TypeVar("AnyRepeated", bound=Repeated)


class EventQueue(ABC, Generic[AnyRepeated]):
    """Queues events; `run` posts them. All methods must be called on the event loop. Without `keep`, events
    are dropped."""

    over_after: ClassVar[int]
    """Nanoseconds without a repeat after which there will be a new event."""

    def __init__(self, cluster: Cluster, *, now: Callable[[], int] = time.time_ns, keep: bool = True) -> None:
        self.dropped = 0  # events that were given up, for metrics
        self.keep = keep
        self._cluster = cluster
        self._now = now
        self._stamp = 0
        self._known: dict[Hashable, AnyRepeated] = {}  # the longest quiet ones first
        self._queue: asyncio.Queue[AnyRepeated] = asyncio.Queue()
        self._closed = asyncio.Event()
        self._overflowing = False
        self._unreachable = False
        self._rejected: set[tuple[int, str, str]] = set()

    @abstractmethod
    async def _write(self, event: AnyRepeated) -> None:
        """Create the event, or write its repeats into it."""

    @abstractmethod
    def _posted(self, event: AnyRepeated) -> None:
        """Put the event again if more repeats are to be written now."""

    # ---- the queue

    def _stamped(self) -> int:
        """The present time, never the same twice: names are made of it."""
        self._stamp = max(self._now(), self._stamp + 1)
        return self._stamp

    def _take(self, key: Hashable, now: int) -> AnyRepeated | None:
        """Return the event that a new one repeats. It is to be remembered again."""
        event = self._known.pop(key, None)
        if event is None or event.last >= now - self.over_after:
            return event
        self._finish(event)
        return None

    def _remember(self, event: AnyRepeated) -> None:
        if len(self._known) >= MOST_REMEMBERED:
            self._finish(self._known.pop(next(iter(self._known))))
        self._known[event.key] = event

    def _put(self, event: AnyRepeated) -> None:
        if event.waiting:
            return
        if self._closed.is_set():
            self.dropped += 1
            return
        if self._queue.qsize() >= MOST_QUEUED:
            self._drop_oldest()
        event.waiting = True
        self._queue.put_nowait(event)

    def _drop_oldest(self) -> None:
        oldest = self._queue.get_nowait()
        self._queue.task_done()
        self._forget(oldest)
        if not self._overflowing:
            self._overflowing = True
            log.warning("the API server is too slow for the events; dropping the oldest of %d", MOST_QUEUED)

    def _forget(self, event: AnyRepeated) -> None:
        """Drop an event; the next of its kind is a new one."""
        self.dropped += 1
        event.waiting = False
        if self._known.get(event.key) is event:
            del self._known[event.key]

    def _finish(self, event: AnyRepeated) -> None:
        """There will be no more repeats: the API server is to know how many they were."""
        if event.count > max(event.sent, 1):
            self._put(event)

    # ---- posting

    async def run(self) -> None:
        """Post what is recorded, until closed."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._work()) for _ in range(WORKERS if self.keep else 0)]
            if self.keep:
                tasks.append(group.create_task(self._finish_quiet()))
            await self._closed.wait()
            for task in tasks:
                task.cancel()

    async def close(self, timeout: float) -> None:
        """Post what is left, for so many seconds at most, and end `run`."""
        for event in self._known.values():
            self._finish(event)
        try:
            async with asyncio.timeout(timeout):
                await self._queue.join()
        except TimeoutError:
            log.warning("events not posted within %g s of shutdown: %d", timeout, self._queue.qsize())
        self._closed.set()

    async def _finish_quiet(self) -> None:
        while True:
            await asyncio.sleep(60)
            quiet_since = self._now() - self.over_after
            while self._known:
                key, event = next(iter(self._known.items()))
                if event.last > quiet_since:
                    break
                del self._known[key]
                self._finish(event)

    async def _work(self) -> None:
        for count in itertools.count(1):
            if count % TURN == 0:
                await asyncio.sleep(0)
            event = await self._queue.get()
            if self._overflowing and self._queue.empty():
                self._overflowing = False
            try:
                await self._post(event)
            except Exception as error:  # a bug; later events may be luckier
                log.error("cannot post an event about %s", event.regarding.name, exc_info=error)
                self._forget(event)
            finally:
                self._queue.task_done()

    async def _post(self, event: AnyRepeated) -> None:
        """Bring the API server up to date about an event, with as many tries as are worth it."""
        count = event.count
        backoff: Backoff | None = None
        for left in reversed(range(TRIES)):
            try:
                await self._write(event)
            except Unreachable as failure:
                retry_after = 0.0
                self._report_unreachable(failure)
            except ApiError as refusal:
                if not refusal.transient:
                    self._report_rejected(event, refusal)
                    break
                retry_after = min(refusal.retry_after or 0.0, LONGEST_RETRY_AFTER)
                self._report_unreachable(refusal)
            else:
                self._unreachable = False
                event.sent, event.waiting = count, False
                self._posted(event)
                return
            if left:
                backoff = backoff or Backoff()
                await asyncio.sleep(max(backoff.wait(), retry_after))
        self._forget(event)

    async def _save(self, resource: ApiResource[Obj], event: Obj, patch: Tree | None) -> None:
        """Change the event, or create it where there is nothing to change."""
        namespace = event.metadata.namespace
        if patch is not None:
            try:
                await self._cluster.patch(resource, event.name, patch, namespace, kind=PatchType.STRATEGIC)
                return
            except ApiError as refusal:
                if not refusal.not_found:  # else it expired: create it again
                    raise
        try:
            await self._cluster.post(resource, "", "", event, namespace)
        except ApiError as refusal:
            if not refusal.conflict:  # else an earlier try got through, of which we had no answer
                raise

    def _report_unreachable(self, failure: Exception) -> None:
        if not self._unreachable:
            self._unreachable = True
            log.warning("cannot post events: %s; retrying", failure)

    def _report_rejected(self, event: AnyRepeated, refusal: ApiError) -> None:
        """Once for each namespace and cause; there may be many events. Those of a namespace that is being
        deleted are of no interest."""
        regarding = event.regarding
        case = (refusal.code, refusal.reason, regarding.namespace)
        known = case in self._rejected or len(self._rejected) >= 1000
        if not known and not refusal.namespace_terminating:
            self._rejected.add(case)
            log.warning(
                'event "%s" about %s %s/%s rejected, and others like it: %s',
                event.reason, regarding.kind, event_namespace(regarding), regarding.name, refusal,
            )  # fmt: skip


def event_metadata(regarding: ObjectReference, now: int) -> ObjectMeta:
    """The name and namespace of a new event."""
    name = f"{regarding.name}.{now:x}"
    if len(name) > LONGEST_NAME:
        name = str(uuid.uuid4())
    return ObjectMeta(name=name, namespace=event_namespace(regarding))


def event_namespace(regarding: ObjectReference) -> str:
    return regarding.namespace or "default"
