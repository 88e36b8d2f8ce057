"""Controllers: a queue of object keys, and a worker that reconciles them one at a time."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import ClassVar

import msgspec

from mooring.api.meta import ObjectReference
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.cache import Cache, Collection
from mooring.client.clocks import real_seconds
from mooring.client.event_recorder import EventRecorder
from mooring.client.port import Cluster, Obj

log = logging.getLogger("mooring.sandbox.controllers")

FIRST_RETRY = 0.005  # seconds; doubles with every failure of the same object, as client-go's queues do
LAST_RETRY = 60.0
TURN = 128  # objects before others on the event loop have their turn
MOST_SIMILAR = 9  # events of one object and reason that are recorded one by one
SIMILAR_FOR = 600.0  # seconds without such events until the count restarts
MOST_REMEMBERED = 10_000


class Context(msgspec.Struct, frozen=True):
    """What controllers share."""

    cluster: Cluster
    cache: Cache
    recorder: EventRecorder
    clock: Callable[[], float]
    """Seconds since the epoch; on the event loop's own time where that is virtual."""

    def now(self) -> str:
        """The present time as objects carry it."""
        return format_time(self.clock())


class Controller(ABC):
    """Reconciles one kind of objects, object by object.

    Handlers of the cache call `enqueue`; `sync` is then called with the key, once for all times it was
    enqueued. If it raises, it is retried later. It reads from the cache and passes its writes to the cache:
    `create`, `delete` and `Collection.wrote`.
    """

    name: ClassVar[str]
    """As events name it: "deployment-controller"."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.cluster = context.cluster
        self.cache = context.cache
        self._due: deque[str] = deque()
        self._queued: set[str] = set()  # the same, to be found in
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._similar = _Similar()

    @abstractmethod
    async def sync(self, key: str) -> None:
        """Do what there is to do about an object, which may be gone by now."""

    # ---- the queue

    def enqueue(self, key: str, after: float = 0.0) -> None:
        """Have an object looked at, at once or in some seconds; of several times to come the first counts."""
        if after > 0:
            loop = asyncio.get_running_loop()
            after = real_seconds(self.context.clock, after)
            timer = self._timers.get(key)
            if timer is not None:
                if timer.when() <= loop.time() + after:
                    return
                timer.cancel()
            self._timers[key] = loop.call_later(after, self._fall_due, key)
            return
        if key not in self._queued:
            self._queued.add(key)
            self._due.append(key)
            self._wake.set()

    def _fall_due(self, key: str) -> None:
        del self._timers[key]
        self.enqueue(key)

    def speed_changed(self, factor: float) -> None:
        """Set all timers again, after the clock became so many times as fast."""
        loop = asyncio.get_running_loop()
        for key, timer in self._timers.items():
            timer.cancel()
            left = max(0.0, timer.when() - loop.time())
            self._timers[key] = loop.call_later(left / factor, self._fall_due, key)

    async def run(self) -> None:
        """Look after objects until cancelled."""
        await self.cache.synced.wait()
        count = 0
        try:
            while True:
                while self._due:
                    key = self._due.popleft()
                    self._queued.discard(key)
                    await self._try(key)
                    count += 1
                    if count % TURN == 0:
                        await asyncio.sleep(0)
                self._wake.clear()
                await self._wake.wait()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _try(self, key: str) -> None:
        try:
            await self.sync(key)
        except Exception as failure:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the failure of a cleanup must not hide that
                raise asyncio.CancelledError from failure
            count = self._failures[key] = self._failures.get(key, 0) + 1
            self.enqueue(key, min(FIRST_RETRY * 2 ** min(count - 1, 20), LAST_RETRY))
            if not isinstance(failure, ClusterError):
                log.error("%s: cannot sync %s", self.name, key, exc_info=failure)
            elif not (isinstance(failure, ApiError) and (failure.conflict or failure.not_found)):
                log.log(
                    logging.WARNING if count == 5 else logging.DEBUG, "%s: %s: %s", self.name, key, failure
                )
        else:
            self._failures.pop(key, None)

    # ---- writing

    async def create(self, collection: Collection[Obj], body: object, namespace: str = "") -> Obj:
        """Create an object that the cache knows of from now on."""
        obj = await self.cluster.create(collection.resource, body, namespace)
        collection.wrote(obj)
        return obj

    async def delete(self, collection: Collection[Obj], obj: Obj) -> None:
        """Delete the object with this UID; no-op if it is already deleted."""
        try:
            await self.cluster.delete(collection.resource, obj.name, obj.namespace, uid=obj.uid)
        except ApiError as refusal:
            if not (refusal.not_found or refusal.conflict):
                raise
            collection.delete(obj)
        else:
            collection.deleting(obj, self.context.now())

    def event(self, collection: Collection[Obj], obj: Obj, type: str, reason: str, note: str) -> None:
        """Record an event about an object, for `kubectl describe` and `kubectl events`."""
        regarding = ObjectReference(
            kind=collection.kind,
            api_version=collection.resource.api_version,
            namespace=obj.namespace,
            name=obj.name,
            uid=obj.uid,
        )
        apart = self._similar.apart(obj.uid, reason, note, self.context.clock())
        if not apart:
            note = f"(combined from similar events): {note}"
        self.context.recorder.emit(regarding, type, reason, reason, note, self.name, apart=apart)


class _Similar:
    """Decides which events are emitted one by one: the first few of those that differ only in their notes,
    as in client-go's recorders. The rest are aggregated."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, str], tuple[float, set[str]]] = {}  # the longest quiet ones first

    def apart(self, uid: str, reason: str, note: str, now: float) -> str:
        """What sets this event apart from similar ones; empty where nothing is to."""
        last, notes = self._notes.pop((uid, reason), (now, set[str]()))
        if last < now - SIMILAR_FOR:
            notes = set()
        if len(notes) < MOST_SIMILAR:
            notes.add(note)
        self._notes[uid, reason] = now, notes
        if len(self._notes) > MOST_REMEMBERED:
            del self._notes[next(iter(self._notes))]
        return note if note in notes else ""
