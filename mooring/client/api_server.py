"""A real API server, over HTTP: the adapter of the port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from mooring.api.errors import MalformedObject
from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.credentials import Access, Credentials, CredentialsError
from mooring.client.decoding import Reader, reader_of
from mooring.client.http.client import HttpClient
from mooring.client.http.lines import LineConnection
from mooring.client.limiter import TokenBucket
from mooring.client.port import Change, Page, PatchType, ServedKind
from mooring.client.refusals import UNREADABLE, refusal, snippet

Obj = TypeVar("Obj", bound=KubeObject)

_MOST_RETRIES = 10  # as client-go, for answers with Retry-After
_LONGEST_RETRY_AFTER = 60.0
_WATCH_GRACE = 30.0  # how much longer than asked for a watch may last
_encode = msgspec.json.Encoder().encode


_Form = TypeVar("_Form")


class _Version(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    versions: list[_Version]
    preferred_version: _Version


class _Groups(msgspec.Struct):
    """/apis, as far as it is read here."""

    groups: list[_Group]


class _Resource(msgspec.Struct):
    name: str
    namespaced: bool
    kind: str
    verbs: list[str]


class _Resources(msgspec.Struct, rename="camel"):
    """/apis/GROUP/VERSION, as far as it is read here."""

    group_version: str
    resources: list[_Resource]


class ApiServer:
    """`qps` and `burst` limit this client as they limit kube-scheduler's; `timeout` is for one answer.

    An answer of 429 or 503 that says when to come back is obeyed, up to ten times; nothing else is repeated
    but a GET on a kept connection that had died meanwhile. `may_write` is asked right before a write is sent,
    however long it has waited.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        qps: float = 50.0,
        burst: int = 100,
        user_agent: str = "mooring",
        connections: int = 64,
        timeout: float = 60.0,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        self._credentials = credentials
        self._limiter = TokenBucket(qps, burst)
        self._timeout = timeout
        self._may_write = may_write
        self._field_manager = user_agent.partition("/")[0]
        self._http = HttpClient(credentials.server, credentials.route, connections)
        route = credentials.route
        host = f"[{route.host}]:{route.port}" if ":" in route.host else f"{route.host}:{route.port}"
        common = f"Host: {host}\r\nUser-Agent: {user_agent}\r\nAccept: application/json\r\n"
        self._common = common.encode("ascii")
        self._contents = {
            kind: f"Content-Type: {kind}\r\n".encode("ascii") for kind in ("application/json", *PatchType)
        }

    # ---- reading

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
        path = _collection(resource, namespace) + _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=limit,
            **{"continue": continue_token},
            resourceVersion=resource_version,
        )
        body = await self._request("GET", path)
        try:
            return reader_of(resource.model).page(body, resource.keep)
        except UNREADABLE as error:
            raise self._nonsense(f"GET {path}", body, error) from None

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
        path = _collection(resource, namespace) + _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=timeout_seconds,
        )
        read, keep = reader_of(resource.model).change, resource.keep
        stream = await self._open_watch(
            path, timeout_seconds + _WATCH_GRACE if timeout_seconds else float("inf")
        )
        try:
            while lines := await self._http.lines(stream, path):
                for line in lines:
                    try:
                        change = read(line, keep)
                    except ApiError as error:
                        error.request = f"GET {path}"
                        raise
                    except UNREADABLE as error:
                        raise self._nonsense(f"GET {path}", line, error) from None
                    yield change
        finally:
            self._http.end(stream)

    async def get(
        self, resource: ApiResource[Obj], name: str, namespace: str = "", subresource: str = ""
    ) -> Obj:
        return await self._object(resource, "GET", _item(resource, namespace, name, subresource))

    async def raw(self, method: str, path: str, body: Any = None) -> bytes:
        """For paths that are no resources: /version, /openapi/v3, …"""
        return await self._request(method, path, body)

    # ---- writing

    async def create(self, resource: ApiResource[Obj], body: Any, namespace: str = "") -> Obj:
        return await self._object(resource, "POST", _collection(resource, namespace), body)

    async def post(
        self, resource: ApiResource[Any], name: str, subresource: str, body: Any, namespace: str = ""
    ) -> None:
        whole = not (name or subresource)
        path = _collection(resource, namespace) if whole else _item(resource, namespace, name, subresource)
        await self._request("POST", path, body)

    async def update(
        self, resource: ApiResource[Obj], name: str, body: Any, namespace: str = "", subresource: str = ""
    ) -> Obj:
        return await self._object(resource, "PUT", _item(resource, namespace, name, subresource), body)

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
        path = _item(resource, namespace, name, subresource)
        if kind is PatchType.APPLY:
            path += _query(fieldManager=self._field_manager, force="true")
        return await self._object(resource, "PATCH", path, patch, kind)

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
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {"uid": uid, "resourceVersion": resource_version}
        if uid or resource_version:
            options["preconditions"] = {name: value for name, value in conditions.items() if value}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy:
            options["propagationPolicy"] = propagation_policy
        await self._request("DELETE", _item(resource, namespace, name), options)

    async def served_kinds(self) -> Sequence[ServedKind]:
        roots = ["/api/v1"]
        for group in (await self._document("/apis", _Groups)).groups:
            preferred = group.preferred_version.group_version
            others = [one.group_version for one in group.versions if one.group_version != preferred]
            roots += [f"/apis/{version}" for version in (preferred, *others)]
        kinds: dict[tuple[str, str], ServedKind] = {}
        for served in await asyncio.gather(*(self._document(root, _Resources) for root in roots)):
            group_name, _, version = served.group_version.rpartition("/")
            for one in served.resources:
                if "/" not in one.name:
                    resource = ApiResource(group_name, version, one.name, one.namespaced, KubeObject)
                    kind = ServedKind(resource, one.kind, frozenset(one.verbs))
                    kinds.setdefault((group_name, one.name), kind)
        return list(kinds.values())

    async def close(self) -> None:
        await self._http.close()

    # ---- requests

    async def _document(self, path: str, form: type[_Form]) -> _Form:
        body = await self._request("GET", path)
        try:
            return msgspec.json.decode(body, type=form)
        except UNREADABLE as error:
            raise self._nonsense(f"GET {path}", body, error) from None

    async def _object(
        self,
        resource: ApiResource[Obj],
        method: str,
        path: str,
        body: Any = None,
        content: str = "application/json",
    ) -> Obj:
        answer = await self._request(method, path, body, content)
        try:
            read: Reader[Obj] = reader_of(resource.model)
            return read.object(answer)
        except MalformedObject as error:
            raise Unreachable(self._credentials.server, str(error), request=f"{method} {path}") from None
        except UNREADABLE as error:
            raise self._nonsense(f"{method} {path}", answer, error) from None

    async def _request(
        self, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> bytes:
        data = b"" if body is None else body if isinstance(body, bytes) else _encode(body)
        content_type = self._contents[content] if data else b""
        retries, renewed = 0, False
        while True:
            await self._limiter.wait()
            access = await self._access()
            head = self._common + access.headers + content_type
            answer = await self._http.request(
                method,
                self._credentials.path + path,
                head,
                data,
                self._timeout,
                None if method == "GET" else self._may_write,
            )
            if answer.status < 300:
                return answer.body
            error = refusal(f"{method} {path}", answer)
            if error.retry_after is not None and error.code in (429, 503) and retries < _MOST_RETRIES:
                retries += 1
                await asyncio.sleep(min(error.retry_after, _LONGEST_RETRY_AFTER))
            elif error.code == 401 and not renewed and await self._access(refused=access) != access:
                renewed = True
            else:
                raise error

    async def _open_watch(self, path: str, duration: float) -> LineConnection:
        await self._limiter.wait()
        for last in (False, True):
            access = await self._access()
            head = self._common + access.headers
            stream = await self._http.stream(self._credentials.path + path, head, self._timeout, duration)
            if stream.streaming:
                break
            error = refusal(f"GET {path}", stream.response())
            self._http.end(stream)
            if last or error.code != 401 or await self._access(refused=access) == access:
                raise error
        return stream

    async def _access(self, refused: Access | None = None) -> Access:
        """Credentials that hold for the next request; `refused`: these do not."""
        if refused or time.monotonic() >= self._credentials.fresh_until:
            try:
                await self._credentials.renew(refused)
            except CredentialsError as error:
                raise Unreachable(self._credentials.server, str(error), sent=False) from None
        access = self._credentials.access
        self._http.tls = access.tls
        return access

    def _nonsense(self, request: str, body: bytes, error: Exception) -> Unreachable:
        cause = f"invalid response: {error}; it starts with {snippet(body)!r}"
        return Unreachable(self._credentials.server, cause, request=request)


def _collection(resource: ApiResource[Any], namespace: str) -> str:
    return resource.path(quote(namespace, safe=""))


def _item(resource: ApiResource[Any], namespace: str, name: str, subresource: str = "") -> str:
    if name in ("", ".", ".."):
        raise ValueError(f"{resource.name}: found {name!r}, expected the name of an object")
    return resource.path(quote(namespace, safe=""), quote(name, safe=""), subresource)


def _query(**parameters: Any) -> str:
    present = {name: value for name, value in parameters.items() if value}
    return "?" + urlencode(present) if present else ""
