"""The network between a client and the API server: latency, errors, lost answers, and watches in trouble."""

from __future__ import annotations

import asyncio
import copy
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import Context
from typing import Any, TypeVar

from mooring.api.kinds import PODS, ApiResource
from mooring.client.api_errors import ApiError, ClusterError, Unreachable
from mooring.client.port import Change, Cluster, Obj, Page, PatchType, ServedKind
from tests.faults.checker import Checker
from tests.faults.faults import Fault, Kind
from tests.faults.history import CLIENT, History

T = TypeVar("T")

TIMEOUT = 30.0  # seconds until a client gives up waiting for an answer
LATEST = 1.2  # seconds after that in which a request may still arrive: leases allow for no more
SLOWING = (Kind.SLOW, Kind.LOSE_LEASE, Kind.ZOMBIE, Kind.HANDOVER)
ERRORS = {
    Kind.TOO_MANY: (429, "TooManyRequests", "too many requests, please try again later"),
    Kind.INTERNAL: (500, "InternalError", "etcdserver: request timed out"),
    Kind.UNAVAILABLE: (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    Kind.CONFLICT: (409, "Conflict", "the object has been modified; please apply your changes again"),
}


class Link:
    """One client's way to the server. `faults` are those that act on it now; `server` is None while it is
    down. A closed link belongs to a client that was killed."""

    def __init__(self, client: str, seed: str, history: History, checker: Checker, slowest: float) -> None:
        self.client = client
        self.faults: list[Fault] = []
        self.server: Cluster | None = None
        self.closed = False
        self.streams: dict[Stream, None] = {}
        self._random = random.Random(seed)
        self._history = history
        self._checker = checker
        self._slowest = slowest
        self._under_way: dict[asyncio.Task[None], None] = {}

    def stop(self) -> None:
        """The run is over: nothing takes effect any more."""
        for request in self._under_way:
            request.cancel()
        for stream in self.streams:
            stream.cancel()

    def latency(self) -> float:
        slow = any(fault.kind in SLOWING for fault in self.faults)
        return self._random.uniform(0.0, 1.0) ** 2 * (1.0 if slow else self._slowest)

    def draw(self, verb: str, what: str) -> Fault | None:
        """The fault that a request meets, if any."""
        for fault in self.faults:
            if fault.meets(verb, what):
                return fault
        return None

    def reach(self) -> Cluster:
        if self.server is None:
            raise Unreachable("api-server", "connection refused", sent=False)
        return self.server

    async def ask(self, verb: str, what: str, call: Callable[[Cluster], Awaitable[T]]) -> T:
        """Send a request and wait for its answer. What was sent takes effect, even if the client dies."""
        if self.closed:
            raise Unreachable("api-server", "connection refused", sent=False)
        self.reach()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        carrying = loop.create_task(self._carry(verb, what, call, answer), context=Context())
        self._under_way[carrying] = None
        carrying.add_done_callback(self._under_way.pop)
        return await answer

    async def _carry(
        self, verb: str, what: str, call: Callable[[Cluster], Awaitable[T]], answer: asyncio.Future[T]
    ) -> None:
        CLIENT.set(self.client)
        self._history.requests += 1
        fault = self.draw(verb, what)
        try:
            await asyncio.sleep(self.latency())
            if verb == "post" and any(f.kind is Kind.LOSE_LEASE for f in self.faults):
                await asyncio.sleep(LATEST)  # it arrives when the lease is lost
            if fault is not None and fault.kind in (Kind.NO_REQUEST, Kind.LOSE_LEASE):
                await asyncio.sleep(self._random.uniform(0.1, TIMEOUT))
                raise Unreachable("api-server", "timed out")
            if fault is not None and fault.kind is Kind.LATE:
                await self._answer(
                    answer, None, Unreachable("api-server", "timed out"), f"{verb} {what} -> late"
                )
                await asyncio.sleep(self._random.uniform(0.0, LATEST))
            if fault is not None and fault.kind in ERRORS:
                raise ApiError(*ERRORS[fault.kind], retry_after=1.0 if fault.kind is Kind.TOO_MANY else None)
            result = await call(self.reach())
        except ClusterError as failure:
            if isinstance(failure, ApiError) and self.server is None:
                failure = Unreachable("api-server", "connection reset by peer")  # it has crashed meanwhile
            await self._answer(answer, None, failure, f"{verb} {what} -> {failure}")
            return
        except Exception as failure:  # a bug of the server
            await self._answer(answer, None, failure, f"{verb} {what} -> {type(failure).__name__}: {failure}")
            return
        if fault is not None and fault.kind is Kind.NO_ANSWER:
            await asyncio.sleep(self._random.uniform(0.0, 1.0) ** 3 * TIMEOUT)
            lost = Unreachable("api-server", "connection reset by peer")
            await self._answer(answer, None, lost, f"{verb} {what} -> done, but the answer is lost")
            return
        await self._answer(answer, result, None, f"{verb} {what}")

    async def _answer(
        self, answer: asyncio.Future[T], result: T | None, failure: BaseException | None, line: str
    ) -> None:
        self._history.note(f"{self.client}: {line}")
        await asyncio.sleep(self.latency())
        if answer.done():
            return
        if failure is not None:
            answer.set_exception(failure)
            if not isinstance(failure, ClusterError):
                self._checker.violate("no bugs", f"{line}")
        else:
            answer.set_result(result)  # type: ignore[arg-type]


class Stream:
    """One watch. A pump takes what the server sends and delivers it after some time."""

    def __init__(self, link: Link, resource: ApiResource[Any]) -> None:
        self.link = link
        self.resource = resource
        self._items: deque[Change[Any] | BaseException | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._pump: asyncio.Task[None]

    def start(self, source: AsyncIterator[Change[Any]]) -> None:
        loop = asyncio.get_running_loop()
        self._pump = loop.create_task(self._run(source), context=Context())

    async def _run(self, source: AsyncIterator[Change[Any]]) -> None:
        CLIENT.set(self.link.client)
        link = self.link
        try:
            async for change in source:
                pause = link.latency()
                while (
                    stall := next(
                        (f for f in link.faults if f.stalls(self.resource.plural, change.object)), None
                    )
                ) is not None:
                    pause = 0.0
                    await asyncio.sleep(max(stall.ends - asyncio.get_running_loop().time(), 0.01))
                if pause:
                    await asyncio.sleep(pause)
                if change.type == "BOOKMARK" and any(f.kind is Kind.NO_BOOKMARKS for f in link.faults):
                    continue
                self._put(change)
            self._put(None)
        except ClusterError as failure:
            self._put(failure)

    def _put(self, item: Change[Any] | BaseException | None) -> None:
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, failure: BaseException) -> None:
        """Cut the connection: what is on its way is lost."""
        self._pump.cancel()
        self._items.clear()
        self._put(failure)

    def fall_silent(self) -> None:
        """Deliver nothing more, without an end."""
        self._pump.cancel()

    def cancel(self) -> None:
        self._pump.cancel()

    async def changes(self) -> AsyncIterator[Change[Any]]:
        loop = asyncio.get_running_loop()
        while True:
            while not self._items:
                self._waiter = loop.create_future()
                await self._waiter
            item = self._items.popleft()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item


class Port:
    """A `mooring.client.port.Cluster` over a link."""

    def __init__(self, link: Link, checker: Checker) -> None:
        self.link = link
        self._checker = checker

    async def list(
        self,
        resource: ApiResource[Obj],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[Obj]:
        async def read(server: Cluster) -> Page[Obj]:
            page = await server.list(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
                resource_version=resource_version,
            )
            self._checker.listed(self.link.client, resource.name, int(page.resource_version))
            return page

        page = await self.link.ask("list", resource.name, read)
        self._checker.showed(self.link.client, page.items)
        return page

    async def watch(
        self,
        resource: ApiResource[Obj],
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncIterator[Change[Obj]]:
        link = self.link

        async def begin(server: Cluster) -> AsyncIterator[Change[Obj]]:
            return server.watch(
                resource,
                resource_version,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                timeout_seconds=timeout_seconds,
            )

        source = await link.ask("watch", f"{resource.name} from {resource_version}", begin)
        stream = Stream(link, resource)
        follower = self._checker.follow(link.client, resource.name, int(resource_version), field_selector)
        stream.start(source)
        link.streams[stream] = None
        try:
            async for change in stream.changes():
                follower.saw(change)
                self._checker.showed(link.client, (change.object,))
                yield change
        finally:
            link.streams.pop(stream, None)
            stream.cancel()

    async def get(
        self, resource: ApiResource[Obj], name: str, namespace: str = "", subresource: str = ""
    ) -> Obj:
        what = _what(resource, namespace, name, subresource)
        return await self.link.ask(
            "get", what, lambda server: server.get(resource, name, namespace, subresource)
        )

    async def create(self, resource: ApiResource[Obj], body: Any, namespace: str = "") -> Obj:
        async def create(server: Cluster) -> Obj:
            created = await server.create(resource, body, namespace)
            self._checker.acknowledged(resource.name, created)
            return created

        return await self.link.ask("create", _what(resource, namespace, "", ""), create)

    async def post(
        self, resource: ApiResource[Any], name: str, subresource: str, body: Any, namespace: str = ""
    ) -> None:
        async def post(server: Cluster) -> None:
            if subresource == "binding":
                await self._bind(server, name, body, namespace)
            else:
                await server.post(resource, name, subresource, body, namespace)

        await self.link.ask("post", _what(resource, namespace, name, subresource), post)

    async def _bind(self, server: Cluster, name: str, body: Any, namespace: str) -> None:
        for fault in self.link.faults:
            if fault.kind is Kind.REPLACE and fault.random.random() < fault.rate:
                await self._replace(server, f"{namespace}/{name}")
        self._checker.binding(self.link.client, body)
        await server.post(PODS, name, "binding", body, namespace)
        self._checker.acknowledged_binding(body)

    async def _replace(self, server: Cluster, key: str) -> None:
        """Put another pod of the same name in the place of one."""
        pod = self._checker.pods.get(key)
        if pod is None or pod.node or pod.terminating:
            return
        namespace, name = key.split("/")
        body = copy.deepcopy(pod.tree)
        for part in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            body["metadata"].pop(part, None)
        body.pop("status", None)
        client = CLIENT.set("faults")
        try:
            await server.delete(PODS, name, namespace, uid=pod.uid, grace_period_seconds=0)
            await server.create(PODS, body, namespace)
        except ApiError:
            pass  # the server has crashed, its disk is full, or the owner was faster
        finally:
            CLIENT.reset(client)

    async def update(
        self, resource: ApiResource[Obj], name: str, body: Any, namespace: str = "", subresource: str = ""
    ) -> Obj:
        async def update(server: Cluster) -> Obj:
            updated = await server.update(resource, name, body, namespace, subresource)
            self._checker.updated(resource.name, body, updated)
            return updated

        return await self.link.ask("update", _what(resource, namespace, name, subresource), update)

    async def patch(
        self,
        resource: ApiResource[Obj],
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        kind: PatchType = PatchType.MERGE,
    ) -> Obj:
        async def apply(server: Cluster) -> Obj:
            patched = await server.patch(resource, name, patch, namespace, subresource=subresource, kind=kind)
            self._checker.updated(resource.name, patch, patched)
            return patched

        return await self.link.ask("patch", _what(resource, namespace, name, subresource), apply)

    async def delete(
        self,
        resource: ApiResource[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        await self.link.ask(
            "delete",
            _what(resource, namespace, name, ""),
            lambda server: server.delete(
                resource,
                name,
                namespace,
                uid=uid,
                resource_version=resource_version,
                grace_period_seconds=grace_period_seconds,
                propagation_policy=propagation_policy,
            ),
        )

    async def served_kinds(self) -> Sequence[ServedKind]:
        return await self.link.ask("get", "kinds", lambda server: server.served_kinds())

    async def close(self) -> None:
        """Nothing to close."""


def _what(resource: ApiResource[Any], namespace: str, name: str, subresource: str) -> str:
    return "/".join(part for part in (resource.name, namespace, name, subresource) if part)
