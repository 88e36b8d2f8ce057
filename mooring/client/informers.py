"""Informers: what an API server holds of each kind, delivered to a sink and kept up to date.

An informer lists a kind, then watches it from the list's resource version. However the watch ends, it is
taken up again from the last version seen, so that nothing is lost and nothing comes twice. Only if the
server no longer has that version is the kind listed again, and the difference passed to the sink.

Lists are consistent reads in pages. client-go's first list asks for whatever the server has at hand
(resourceVersion=0), which is answered in one piece however large and may be older than what was seen before;
since v1.34 a consistent read comes from the server's memory just as well, page by page.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Generic, Protocol

from mooring.api.errors import ObjectError
from mooring.api.kinds import NODES, PODS, WATCHED, ApiResource
from mooring.api.meta import KubeObject
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.backoff import Backoff
from mooring.client.port import Change, Cluster, Delivering, Obj, Page
from mooring.client.troubles import Troubles, explain_refusal

log = logging.getLogger("mooring.informers")

NOT_TERMINAL = "status.phase!=Succeeded,status.phase!=Failed"
"""The pods that still use something. One that ends leaves the selection, and comes as deleted."""

STALL_AFTER = 90.0  # seconds without a word from a watch
"""Bookmarks come every minute, but not if nothing has happened in the cluster since the last one.
Restarting a watch costs one request, so a false alarm is harmless and needs no warning."""

WATCH_FOR = (300, 600)  # seconds, at random between them, as client-go: spreads the load of new watches
SHORT_LIFE = 1.0  # seconds: a watch that ends sooner and brought nothing is a failure
LOOK_FOR_DEFINITION = 5.0  # seconds at most between two looks at whether an optional kind is served by now
LONGEST_RETRY_AFTER = 60.0  # seconds; a server cannot send us away for longer
SERVER = "the API server"
TURN = 256  # objects handed over before others on the event loop have their turn


class Sink(Protocol):
    """Where objects go. A MalformedObject from `apply` means that the object cannot be used as it is."""

    def apply(self, obj: KubeObject) -> None: ...

    def delete(self, obj: KubeObject) -> None: ...


class Informer(Generic[Obj]):
    """Follows one kind.

    An invalid object is reported once for each cause and skipped. If an earlier version of it was valid, that
    one stays: the object still exists and uses resources, which would be given away if it counted as deleted.
    (The API server itself refuses such objects; kube-scheduler never sees one.)

    `after` is waited for before the first object is delivered. An `optional` kind may not be served yet,
    because its CustomResourceDefinition does not exist: then it has no objects. Other sinks may
    `attach` themselves, which costs less than to follow the kind once more.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: ApiResource[Obj],
        sink: Sink,
        *,
        field_selector: str = "",
        page_size: int = 500,
        stall_after: float = STALL_AFTER,
        after: asyncio.Event | None = None,
        optional: bool = False,
        troubles: Troubles | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()  # the first list has been delivered
        self._cluster = cluster
        self._sinks = [sink]
        self._field_selector = field_selector
        self._page_size = page_size
        self._stall_after = stall_after
        self._after = after
        self._optional = optional
        self._absent = False  # an optional kind that is not served
        self._troubles = troubles or Troubles()
        self._objects: dict[str, Obj] = {}  # what the sinks have, by key
        self._refused: dict[str, str] = {}  # by key, what was said about an object last
        self._version = ""  # the last resource version seen; "" where a list is needed
        self._refreshing: asyncio.Event | None = None  # set by the next list
        self._patience: asyncio.Timeout | None = None  # of the watch

    async def refresh(self) -> None:
        """List again, and return once all that the server has now is delivered: a watch may be behind."""
        if self._refreshing is None:
            self._refreshing = asyncio.Event()
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())  # ends the watch
        await self._refreshing.wait()

    async def attach(self, sink: Sink) -> None:
        """Deliver to this sink, too: what is known now, by and by, and changes from now on."""
        self._sinks.append(sink)
        await self.synced.wait()
        for count, key in enumerate(list(self._objects), 1):
            obj = self._objects.get(key)  # which may be a newer one by now, or gone
            if obj is not None:
                try:
                    sink.apply(obj)
                except Exception as error:
                    self._refuse(key, error)
            if count % TURN == 0:
                await asyncio.sleep(0)

    def detach(self, sink: Sink) -> None:
        if sink in self._sinks:
            self._sinks.remove(sink)

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        clock = asyncio.get_running_loop().time
        backoff = Backoff(limit=LOOK_FOR_DEFINITION, clock=clock) if self._optional else Backoff(clock=clock)
        while True:
            try:
                await self._follow()
            except Exception as failure:  # whatever it is, the kind has to be followed on
                self._report(failure)
                retry_after = failure.retry_after or 0.0 if isinstance(failure, ApiError) else 0.0
                await asyncio.sleep(max(backoff.wait(), min(retry_after, LONGEST_RETRY_AFTER)))

    async def _follow(self) -> None:
        """List where that is needed, and watch; a watch that did some good is taken up again at once.
        Raises where it is better to wait before going on."""
        clock = asyncio.get_running_loop().time
        while True:
            while self._refreshing is not None or not self._version:
                await self._list()
            began, version = clock(), self._version
            cut: Unreachable | None = None
            try:
                await self._watch()
            except Unreachable as failure:
                cut = failure
            if self._version == version:  # it brought nothing
                if cut is None and self._refreshing is None and clock() - began < SHORT_LIFE:
                    cut = Unreachable(SERVER, f"closes watches of {self.resource.name} as soon as they start")
                if cut is not None:
                    raise cut
            self._troubles.settle(self.resource.name)

    def _report(self, failure: Exception) -> None:
        name = self.resource.name
        if isinstance(failure, ApiError) and failure.gone:
            log.info("%s: resource version %s is too old; listing again", name, self._version)
            self._version = ""
        elif self._optional and isinstance(failure, ApiError) and failure.not_found:
            if self._version or not self._absent:
                log.info("%s are not served; waiting for their CustomResourceDefinition", name)
            self._absent, self._version = True, ""
        elif isinstance(failure, ApiError):
            verb = "watch" if self._version else "list"
            self._troubles.report(name, explain_refusal(failure, verb, self.resource))
        elif isinstance(failure, Unreachable):
            self._troubles.report(name, str(failure))
        else:
            log.error("%s: cannot watch; listing again", name, exc_info=failure)
            self._version = ""

    # ---- lists

    async def _list(self) -> None:
        """Deliver all that changed since we looked last; at first, everything."""
        refreshing, self._refreshing = self._refreshing, None
        try:
            await self._list_pages()
        except BaseException:
            self._refreshing = self._refreshing or refreshing
            raise
        if refreshing is not None:
            refreshing.set()

    async def _list_pages(self) -> None:
        seen: set[str] = set()
        token, limit = "", self._page_size
        while True:
            try:
                page = await self._page(token, limit)
            except ApiError as refusal:
                absent = refusal.not_found and self._optional
                if absent or (refusal.code == 403 and self.resource.dispensable):
                    await self._delete_others(seen)
                    self.synced.set()
                if not (refusal.gone and limit):
                    raise
                # The rest of the list expired while we read its beginning. All in one piece cannot.
                token, limit = "", 0
                seen.clear()
                continue
            await self._deliver(page, seen)
            if page.continue_token == token != "":
                raise Unreachable(SERVER, f"a list of {self.resource.name} that goes on where it was")
            token = page.continue_token
            if not token:
                break
        await self._delete_others(seen)
        self._version = page.resource_version
        self._troubles.settle(self.resource.name)
        self.synced.set()

    async def _page(self, token: str, limit: int) -> Page[Obj]:
        try:
            async with asyncio.timeout(self._stall_after):
                page = await self._cluster.list(
                    self.resource, field_selector=self._field_selector, limit=limit, continue_token=token
                )
        except TimeoutError:
            cause = f"no answer to a list of {self.resource.name} within {self._stall_after:g} s"
            raise Unreachable(SERVER, cause) from None
        if not page.resource_version:  # there would be nothing to watch from
            raise Unreachable(SERVER, f"a list of {self.resource.name} without metadata.resourceVersion")
        return page

    async def _deliver(self, page: Page[Obj], seen: set[str]) -> None:
        if self._after is not None:
            await self._after.wait()
        for count, obj in enumerate(page.items, 1):
            seen.add(obj.key)
            old = self._objects.get(obj.key)
            if old is None or old.metadata.resource_version != obj.metadata.resource_version:
                self._apply(obj)
            if count % TURN == 0:
                await asyncio.sleep(0)
        for error in page.malformed:
            seen.add(error.key)
            self._refuse(error.key, error)

    async def _delete_others(self, seen: set[str]) -> None:
        """Objects deleted while no watch was open, in their last known state."""
        vanished = [obj for key, obj in self._objects.items() if key not in seen]
        for count, obj in enumerate(vanished, 1):
            self._delete(obj)
            if count % TURN == 0:
                await asyncio.sleep(0)
        self._refused = {key: cause for key, cause in self._refused.items() if key in seen}

    # ---- watches

    async def _watch(self) -> None:
        """Deliver changes until the watch ends or is silent for too long."""
        if isinstance(self._cluster, Delivering):
            await self._listen(self._cluster)
            return
        clock = asyncio.get_running_loop().time
        stream = self._cluster.watch(
            self.resource,
            self._version,
            field_selector=self._field_selector,
            timeout_seconds=random.randint(*WATCH_FOR),
        )
        count, listen_until = 0, 0.0
        try:
            async with asyncio.timeout(self._stall_after) as patience:
                self._patience = patience
                async for change in stream:
                    self._take(change)
                    count += 1
                    if count % TURN == 0:
                        await asyncio.sleep(0)
                    now = clock()
                    if now >= listen_until:  # moving a timer for every change would cost more than the change
                        listen_until = now + self._stall_after / 10
                        patience.reschedule(now + self._stall_after)
                        self._troubles.settle(self.resource.name)
        except TimeoutError:
            log.debug(
                "watch of %s silent for %g s; restarting it from version %s",
                self.resource.name, self._stall_after, self._version,
            )  # fmt: skip
        finally:
            self._patience = None
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _listen(self, cluster: Delivering) -> None:
        """Have changes delivered until a refresh: such a watch needs neither timers nor restarts."""
        try:
            async with asyncio.timeout(None) as self._patience:
                await cluster.deliver(self.resource, self._version, self._take, self._field_selector)
        except TimeoutError:
            log.debug("watch of %s ends for a list", self.resource.name)
        finally:
            self._patience = None

    def _take(self, change: Change[Obj]) -> None:
        obj = change.object
        if change.malformed is not None:
            self._take_malformed(change.type, change.malformed)
        elif obj is not None and change.type != "BOOKMARK":
            if change.type == "DELETED":
                self._delete(obj)
            else:
                self._apply(obj)
        self._version = change.resource_version or self._version

    def _take_malformed(self, type: str, error: ObjectError) -> None:
        last = self._objects.get(error.key)
        if type != "DELETED":
            self._refuse(error.key, error)
        elif last is not None:
            self._delete(last)
        else:
            self._refused.pop(error.key, None)

    # ---- the sink

    def _apply(self, obj: Obj) -> None:
        key = obj.key
        if not obj.metadata.name:
            self._refuse(key, ObjectError(type(obj).__name__, key, "metadata.name: not set"))
            return
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            self._delete(old)  # another object by the same name: the deletion in between went unseen
        refusal: Exception | None = None
        for sink in self._sinks:
            try:
                sink.apply(obj)
            except Exception as error:
                refusal = error
        if refusal is not None:
            self._refuse(key, refusal)
            return
        self._objects[key] = obj
        if self._refused:
            self._refused.pop(key, None)

    def _delete(self, obj: Obj) -> None:
        key = obj.key
        self._objects.pop(key, None)
        self._refused.pop(key, None)
        for sink in self._sinks:
            try:
                sink.delete(obj)
            except Exception as error:
                log.error("deleting %s %s", type(obj).__name__, key, exc_info=error)

    def _refuse(self, key: str, error: Exception) -> None:
        """Pass an object over, and say so, once for each object and cause."""
        cause = str(error) if isinstance(error, ObjectError) else f"{type(error).__name__}: {error}"
        if self._refused.get(key) == cause:
            return
        self._refused[key] = cause
        if isinstance(error, ObjectError):
            kept = "; keeping its last valid version" if key in self._objects else "; skipped"
            log.warning("%s%s", cause, kept)
        else:
            log.error("applying %s %s", self.resource.model.__name__, key, exc_info=error)


class Informers:
    """One informer for each kind that the scheduler reads, all to one sink.

    Nodes are delivered before the first pods, so that bound pods find the nodes they are on. `custom` are
    kinds that plugins ask for. `pods` is an informer of pods that others run, to be shared.
    """

    def __init__(
        self,
        cluster: Cluster,
        sink: Sink,
        resources: Iterable[ApiResource[KubeObject]] = WATCHED,
        *,
        custom: Iterable[ApiResource[KubeObject]] = (),
        pods: Informer[Any] | None = None,
    ) -> None:
        self.synced = asyncio.Event()  # every kind's first list has been delivered
        troubles = Troubles()
        self._sink = sink
        self._pods = pods
        self._informers: dict[str, Informer[KubeObject]] = {}
        for resource in sorted(resources, key=lambda resource: resource.name != NODES.name):
            of_pods = resource.name == PODS.name
            if of_pods and pods is not None:
                continue
            nodes = self._informers.get(NODES.name) if of_pods else None
            self._informers[resource.name] = Informer(
                cluster,
                resource,
                sink,
                field_selector=NOT_TERMINAL if of_pods else "",
                after=nodes.synced if nodes else None,
                troubles=troubles,
            )
        for resource in custom:
            self._informers[resource.name] = Informer(
                cluster, resource, sink, optional=True, troubles=troubles
            )

    async def run(self) -> None:
        """Follow all kinds until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for name, informer in self._informers.items():
                    group.create_task(informer.run(), name=f"informer of {name}")
                for informer in self._informers.values():
                    await informer.synced.wait()
                if self._pods is not None:
                    await self._pods.attach(self._sink)
                self.synced.set()
        finally:
            if self._pods is not None:
                self._pods.detach(self._sink)

    async def refresh_pods(self) -> None:
        """Deliver all pods that the server has now, although their watch may be behind."""
        await (self._informers[PODS.name] if self._pods is None else self._pods).refresh()

    def not_synced(self) -> list[str]:
        """The kinds whose first list has not been delivered yet, by the names that RBAC knows them by."""
        return [name for name, informer in self._informers.items() if not informer.synced.is_set()]
