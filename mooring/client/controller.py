"""Controllers: a queue of object keys, and a worker that reconciles them one at a time."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from mooring.api.events import EventSource
from mooring.api.meta import KubeObject, ObjectReference, Tree
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.cache import Cache, Collection
from mooring.client.clocks import real_seconds
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.port import Cluster, Obj
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.client.wake import Wake

log = logging.getLogger("mooring.sandbox.controllers")

FIRST_RETRY = 0.005  # seconds; doubles with every failure of the same object, as client-go's queues do
LAST_RETRY = 60.0
TURN = 128  # objects before others on the event loop have their turn
LONGEST_TURN = 0.01  # seconds


class Context(msgspec.Struct, frozen=True):
    """What controllers share."""

    cluster: Cluster
    cache: Cache
    recorder: CountingRecorder
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
        self._wake = Wake()
        self._own: KubeObject | None = None  # what we wrote, while handlers see it

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
        turn = _Turn()
        try:
            while True:
                while self._due:
                    key = self._due.popleft()
                    self._queued.discard(key)
                    await self._try(key)
                    if turn.is_over():
                        await asyncio.sleep(0)
                        turn = _Turn()
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
        self._wrote(collection, obj, own=True)
        return obj

    async def write_status(self, collection: Collection[Obj], obj: Obj, status: Any, changes: Tree) -> Obj:
        """Write the changes that lead to a status."""
        resource = collection.resource
        patch = {"status": changes}
        written = await self.cluster.patch(resource, obj.name, patch, obj.namespace, subresource="status")
        self._wrote(collection, written, own=_is_changed_by(obj, written, status))
        return written

    def _wrote(self, collection: Collection[Obj], obj: Obj, *, own: bool) -> None:
        self._own = obj if own else None
        collection.wrote(obj)
        self._own = None

    def is_own(self, obj: KubeObject | None) -> bool:
        """For handlers: whether this change is what the controller itself has just written, and no other
        client changed the object meanwhile. Then there is nothing more to do about it."""
        return obj is not None and obj is self._own

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

    def event(
        self,
        collection: Collection[Obj],
        obj: Obj,
        type: str,
        reason: str,
        message: str,
        *,
        host: str = "",
        field_path: str = "",
    ) -> None:
        """Record an event about an object, for `kubectl describe` and `kubectl events`."""
        recorder = self.context.recorder
        if not recorder.keep:
            return
        regarding = ObjectReference(
            kind=collection.kind,
            api_version=collection.resource.api_version,
            namespace=obj.namespace,
            name=obj.name,
            uid=obj.uid,
            resource_version=obj.metadata.resource_version,
            field_path=field_path,
        )
        recorder.emit(regarding, type, reason, message, EventSource(self.name, host))


class _Turn:
    """What a controller does before others on the event loop have their turn. On virtual time it is counted
    only: its length must not decide the order of events."""

    def __init__(self) -> None:
        is_virtual = isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        self._end = math.inf if is_virtual else time.monotonic() + LONGEST_TURN
        self._count = 0

    def is_over(self) -> bool:
        self._count += 1
        return self._count >= TURN or time.monotonic() > self._end


def _is_changed_by(old: Any, new: Any, status: Any) -> bool:
    """Whether an object changed by this status only."""
    version = new.metadata.resource_version
    same = msgspec.structs.replace(old.metadata, resource_version=version) == new.metadata
    return same and bool(new.status == status and new.spec == old.spec)
