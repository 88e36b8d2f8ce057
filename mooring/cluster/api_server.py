"""A real API server, over HTTP: the adapter of the port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from mooring.api.errors import MalformedObject
from mooring.api.meta import KubeObject
from mooring.cluster.credentials import Credentials, CredentialsError
from mooring.cluster.decoding import UNREADABLE, Reader, WatchError, reader_of, status_of
from mooring.cluster.errors import ApiError, Unreachable
from mooring.cluster.http.client import HttpClient
from mooring.cluster.http.connection import Response
from mooring.cluster.kinds import ApiResource
from mooring.cluster.limiter import TokenBucket
from mooring.cluster.port import Change, Page, PatchType

Obj = TypeVar("Obj", bound=KubeObject)

_MOST_RETRIES = 10  # as client-go, for answers with Retry-After
_LONGEST_RETRY_AFTER = 60.0
_SNIPPET = 300  # characters of a body that is not a Status
_WATCH_GRACE = 30.0  # how much longer than asked for a watch may last
_encode = msgspec.json.Encoder().encode


class ApiServer:
    """`qps` and `burst` limit this client as they limit kube-scheduler's; `timeout` is for one answer.

    An answer of 429 or 503 that says when to come back is obeyed, up to ten times; nothing else is repeated
    but a GET on a kept connection that had died meanwhile.
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
    ) -> None:
        self._credentials = credentials
        self._limiter = TokenBucket(qps, burst)
        self._timeout = timeout
        self._field_manager = user_agent.partition("/")[0]
        self._http = HttpClient(credentials.server, credentials.route, connections)
        host = f"{credentials.route.host}:{credentials.route.port}"
        self._common = (f"Host: {host}\r\nUser-Agent: {user_agent}\r\nAccept: application/json\r\n").encode(
            "ascii"
        )
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
        path = _path(resource, namespace) + _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=limit,
            **{"continue": continue_token},
            resourceVersion=resource_version,
        )
        body = await self._request("GET", path)
        try:
            return reader_of(resource.model).page(body)
        except UNREADABLE as error:
            raise self._nonsense("GET", path, body, error) from None

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
        path = _path(resource, namespace) + _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=timeout_seconds,
        )
        read = reader_of(resource.model).change
        await self._limiter.wait()
        await self._authenticate()
        duration = timeout_seconds + _WATCH_GRACE if timeout_seconds else float("inf")
        head = self._common + self._credentials.headers
        stream = await self._http.stream(self._credentials.path + path, head, self._timeout, duration)
        try:
            if not stream.streaming:
                raise self._refusal("GET", path, stream.response())
            while lines := await self._http.lines(stream, path):
                for line in lines:
                    try:
                        change = read(line)
                    except WatchError as error:
                        status = error.status
                        raise ApiError(
                            status.code,
                            status.reason,
                            status.message,
                            request=f"GET {path}",
                            details=status.details,
                        ) from None
                    except UNREADABLE as error:
                        raise self._nonsense("GET", path, line, error) from None
                    yield change
        finally:
            self._http.end(stream)

    async def get(self, resource: ApiResource[Obj], name: str, namespace: str = "") -> Obj:
        return await self._object(resource, "GET", _path(resource, namespace, name))

    async def raw(self, method: str, path: str, body: Any = None) -> bytes:
        """For paths that are no resources: /version, /openapi/v3, …"""
        return await self._request(method, path, body)

    # ---- writing

    async def create(self, resource: ApiResource[Obj], body: Any, namespace: str = "") -> Obj:
        return await self._object(resource, "POST", _path(resource, namespace), body)

    async def post(
        self, resource: ApiResource[Any], name: str, subresource: str, body: Any, namespace: str = ""
    ) -> None:
        await self._request("POST", _path(resource, namespace, name, subresource), body)

    async def update(
        self, resource: ApiResource[Obj], name: str, body: Any, namespace: str = "", subresource: str = ""
    ) -> Obj:
        return await self._object(resource, "PUT", _path(resource, namespace, name, subresource), body)

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
        path = _path(resource, namespace, name, subresource)
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
        grace_period_seconds: int | None = None,
    ) -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        await self._request("DELETE", _path(resource, namespace, name), options)

    async def close(self) -> None:
        await self._http.close()

    # ---- requests

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
            raise self._nonsense(method, path, answer, error) from None

    async def _request(
        self, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> bytes:
        data = b"" if body is None else body if isinstance(body, bytes) else _encode(body)
        renewed = False
        for retries in range(_MOST_RETRIES + 1):
            await self._limiter.wait()
            await self._authenticate()
            headers = self._credentials.headers
            head = self._common + headers + (self._contents[content] if data else b"")
            answer = await self._http.request(
                method, self._credentials.path + path, head, data, self._timeout
            )
            if answer.status < 300:
                return answer.body
            refusal = self._refusal(method, path, answer)
            if answer.status == 401 and not renewed:
                renewed = True
                await self._authenticate(refused=True)
                if self._credentials.headers != headers:
                    continue
            elif answer.status in (429, 503) and refusal.retry_after is not None and retries < _MOST_RETRIES:
                await asyncio.sleep(min(refusal.retry_after, _LONGEST_RETRY_AFTER))
                continue
            raise refusal
        raise AssertionError("unreachable: the last round returns or raises")

    async def _authenticate(self, *, refused: bool = False) -> None:
        """Have credentials that hold for the next request."""
        if refused or time.monotonic() >= self._credentials.fresh_until:
            try:
                await self._credentials.renew(refused=refused)
            except CredentialsError as error:
                raise Unreachable(self._credentials.server, str(error), sent=False) from None
        self._http.tls = self._credentials.tls

    def _refusal(self, method: str, path: str, answer: Response) -> ApiError:
        """The error that an answer of 300 and above stands for."""
        retry_after = answer.header(b"retry-after")
        try:
            status = status_of(answer.body)
        except UNREADABLE:
            status = None
        if status is None or not status.message:
            text = " ".join(answer.body[: 4 * _SNIPPET].decode(errors="replace").split())[:_SNIPPET]
            message = f"the server answered {answer.status}" + (f": {text}" if text else "")
        else:
            message = status.message
        return ApiError(
            answer.status,
            status.reason if status else "",
            message,
            request=f"{method} {path}",
            details=status.details if status else None,
            retry_after=float(retry_after) if retry_after.isdecimal() else None,
        )

    def _nonsense(self, method: str, path: str, found: bytes, error: Exception) -> Unreachable:
        text = found[:_SNIPPET].decode(errors="replace")
        return Unreachable(
            self._credentials.server,
            f"the answer makes no sense: {error}; it starts with {text!r}",
            request=f"{method} {path}",
        )


def _path(resource: ApiResource[Any], namespace: str, name: str = "", subresource: str = "") -> str:
    return resource.path(quote(namespace, safe=""), quote(name, safe=""), subresource)


def _query(**parameters: Any) -> str:
    given = {name: value for name, value in parameters.items() if value}
    return "?" + urlencode(given) if given else ""
