"""The ASGI application: who asks, what for, and how the answer is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from mooring.client.errors import ApiError
from mooring.sandbox.apiserver.accounts import user_of
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.discovery import Discovery
from mooring.sandbox.apiserver.dispatch import handle
from mooring.sandbox.apiserver.errors import (
    bad_request,
    internal,
    status_tree,
    too_large_body,
    too_many_requests,
    unauthorized,
)
from mooring.sandbox.apiserver.http.gate import acting, check_path, check_target
from mooring.sandbox.apiserver.http.negotiation import representation, wants_aggregated_discovery
from mooring.sandbox.apiserver.http.openapi import openapi_reply
from mooring.sandbox.apiserver.http.paths import find_target, verb_of
from mooring.sandbox.apiserver.http.representation import Representation
from mooring.sandbox.apiserver.kinds import protobuf
from mooring.sandbox.apiserver.objects import encode_json
from mooring.sandbox.apiserver.openapi.documents import OpenAPI
from mooring.sandbox.apiserver.store.store import StoreFailedError
from mooring.sandbox.apiserver.verbs.request import (
    ListAnswer,
    ObjectAnswer,
    Request,
    TextAnswer,
    TreeAnswer,
    WatchAnswer,
)
from mooring.sandbox.apiserver.verbs.watching import Batch

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Page = Callable[[str, Mapping[str, list[str]]], Awaitable[tuple[int, str, bytes]]]
"""Answers a GET of a path with such parameters: code, content type and body."""

logger = logging.getLogger(__name__)

LARGEST_BODY = 3 * 1024 * 1024
MOST_WATCHES = 10_000
_MOST_PARAMETERS = 100
_JSON: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]
_TEXT: Headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]
_DEPRECATED = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_HEALTH = ("/healthz", "/livez", "/readyz")


class App:
    """One API over HTTP, for those who have a token; and `pages` of others in this process, by their path, or
    by what their paths begin with up to a slash."""

    def __init__(self, api: Api, version: dict[str, str], pages: Mapping[str, Page] | None = None) -> None:
        self._api = api
        self._pages = {} if pages is None else pages
        self._version = encode_json(version)
        self._discovery = Discovery(api.registry)
        self._openapi = OpenAPI(api.registry, version["gitVersion"])
        self._watches = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"found {scope['type']} in the place of an HTTP request")
        exchange = _Exchange(scope, receive, send)
        try:
            await self._answer(exchange)
        except ApiError as error:
            await exchange.refuse(error)
        except StoreFailedError as error:
            await exchange.refuse(internal(str(error)))
        except _GoneError:
            pass  # nobody is there to be told
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            await exchange.refuse(internal("the embedded API server failed; its log says where"))

    async def _answer(self, exchange: _Exchange) -> None:
        path = exchange.path
        if path.partition("/")[2].partition("/")[0] in ("healthz", "livez", "readyz"):
            await exchange.text(200, "ok")
            return
        exchange.user = user_of(self._api, exchange.token())
        if exchange.user is None:
            raise unauthorized()
        exchange.user = acting(self._api, exchange.user, exchange.headers)
        if _names_objects(path):
            await self._answer_api(exchange)
            return
        check_path(self._api, exchange.user, exchange.method, path)
        if path in ("/version", "/version/"):
            await exchange.json(200, self._version)
        elif path.startswith(("/api/", "/apis/")) or path in ("/api", "/apis"):
            await self._answer_discovery(exchange)
        elif path.startswith("/openapi/"):
            await self._answer_openapi(exchange)
        elif (page := self._page(path)) is not None and exchange.method == "GET":
            code, content_type, body = await page(path, exchange.params())
            await exchange.send_whole(code, [(b"content-type", content_type.encode())], body)
        else:
            await exchange.text(404, "404 page not found\n")

    def _page(self, path: str) -> Page | None:
        for at, page in self._pages.items():
            if path == at or (at.endswith("/") and path.startswith(at)):
                return page
        return None

    async def _answer_api(self, exchange: _Exchange) -> None:
        assert exchange.user is not None
        target = find_target(self._api.registry, exchange.path)
        if target is None:
            await exchange.text(404, "404 page not found\n")
            return
        exchange.warn(target.resource.deprecation or _DEPRECATED.get(target.resource.storage))
        params = exchange.params()
        watch = (params.get("watch") or ["false"])[0].lower() not in ("", "false", "0")
        content_type = exchange.header(b"content-type")
        verb = verb_of(exchange.method, target, watch)
        check_target(self._api, exchange.user, verb, target, params)
        request = Request(
            self._api,
            verb,
            target.resource,
            target.namespace,
            target.name,
            exchange.user,
            target.subresource,
            params,
            b"" if exchange.method == "GET" else _readable(await exchange.body(), content_type),
            content_type,
            exchange.header(b"user-agent"),
        )
        await self._answer_request(exchange, request)

    async def _answer_discovery(self, exchange: _Exchange) -> None:
        accept = exchange.header(b"accept")
        path = exchange.path.rstrip("/")
        aggregated = path in ("/api", "/apis") and wants_aggregated_discovery(accept)
        document = self._discovery.document(path, exchange.header(b"host"), aggregated=aggregated)
        if document is None:
            await exchange.text(404, "404 page not found\n")
            return
        media = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        headers = [
            (b"content-type", media if aggregated else b"application/json"),
            (b"etag", document.etag.encode()),
            (b"vary", b"Accept"),
        ]
        unchanged = exchange.header(b"if-none-match") == document.etag
        await exchange.send_whole(304 if unchanged else 200, headers, b"" if unchanged else document.body)

    async def _answer_openapi(self, exchange: _Exchange) -> None:
        accept, known = exchange.header(b"accept"), exchange.header(b"if-none-match")
        params, now = exchange.params(), self._api.clock()
        reply = openapi_reply(self._openapi, exchange.path, params, accept, known, now)
        await exchange.send_whole(*reply)

    async def _answer_request(self, exchange: _Exchange, request: Request) -> None:
        shown = representation(exchange.header(b"accept"), request.params, self._api.clock)
        answer = handle(request)
        await self._api.store.settled()
        if isinstance(answer, ObjectAnswer):
            body = shown.single(answer.resource, answer.record)
            await exchange.json(answer.code, body, answer.warnings)
        elif isinstance(answer, ListAnswer):
            await exchange.chunks(shown.listed(answer.resource, answer.listing))
        elif isinstance(answer, TreeAnswer):
            await exchange.json(answer.code, shown.tree(answer.tree), answer.warnings)
        elif isinstance(answer, WatchAnswer):
            await self._stream(exchange, answer, shown)
        elif isinstance(answer, TextAnswer):
            await exchange.text(200, answer.text)

    async def _stream(self, exchange: _Exchange, answer: WatchAnswer, shown: Representation) -> None:
        if self._watches >= MOST_WATCHES:
            raise too_many_requests(f"there are {MOST_WATCHES} watches already, please try again later", 1)
        self._watches += 1
        gone = asyncio.ensure_future(exchange.disconnected())
        gone.add_done_callback(lambda _: answer.watching.close())
        try:
            await exchange.start(200, _JSON)
            async for batch in answer.watching.batches():
                await exchange.part(_lines(answer, batch, shown))
            await exchange.end()
        except ApiError as error:
            await exchange.part(encode_json({"type": "ERROR", "object": status_tree(error)}) + b"\n")
            await exchange.end()
        finally:
            self._watches -= 1
            gone.cancel()


def _names_objects(path: str) -> bool:
    """Whether a path is below a version of the API; those above tell what kinds there are."""
    if not path.startswith(("/api/", "/apis/")):
        return False
    depth = len([part for part in path.split("/") if part])
    return depth > (2 if path.startswith("/api/") else 3)


def _readable(body: bytes, content_type: str) -> bytes:
    """A body whose text is UTF-8. What is not is replaced, as Go's JSON does, and not refused."""
    if body.isascii() or content_type.startswith(protobuf.MEDIA_TYPE):
        return body
    return body.decode("utf-8", "replace").encode()


def _lines(answer: WatchAnswer, batch: Batch, shown: Representation) -> bytes:
    resource = answer.resource
    lines = [shown.event(resource, type, record) for type, record in batch.changes]
    if batch.bookmark:
        lines.append(shown.bookmark(resource, batch.bookmark, batch.annotations))
    return b"".join(lines)


class _GoneError(Exception):
    """The client has gone before its request was whole."""


class _Exchange:
    """One request and the writing of its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.user: User | None = None
        self._query: bytes = scope["query_string"]
        self.headers: Headers = scope["headers"]
        self._receive = receive
        self._send = send
        self._started = False
        self._warnings: Headers = []

    def warn(self, text: str | None) -> None:
        """Tell the client of something, whatever the answer will be."""
        if text is not None:
            self._warnings.append((b"warning", _warning(text)))

    def header(self, name: bytes) -> str:
        for found, value in self.headers:
            if found == name:
                return value.decode("latin-1")
        return ""

    def token(self) -> str:
        """The token that the client has sent; empty where there is none."""
        scheme, _, given = self.header(b"authorization").partition(" ")
        return given.strip() if scheme.lower() == "bearer" else ""

    def params(self) -> dict[str, list[str]]:
        if not self._query:
            return {}
        try:
            return parse_qs(
                self._query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS
            )
        except ValueError as error:
            raise bad_request(f"query parameters: {error}") from None

    async def body(self) -> bytes:
        """The whole body of the request. Raises 413, and where the client has gone before it was whole."""
        message = await self._receive()
        data: bytes = message.get("body", b"")
        if message.get("more_body"):
            parts, size = [data], len(data)
            while message.get("more_body") and size <= LARGEST_BODY:
                message = await self._receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
            data = b"".join(parts)
        if message["type"] == "http.disconnect":
            raise _GoneError
        if len(data) > LARGEST_BODY:
            raise too_large_body(LARGEST_BODY)
        return data

    async def disconnected(self) -> None:
        """Until the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def refuse(self, error: ApiError) -> None:
        """Answer with a Status, unless an answer is on its way already."""
        if self._started:
            return
        headers = list(_JSON)
        if error.retry_after:
            headers.append((b"retry-after", str(int(error.retry_after)).encode()))
        await self.send_whole(error.code, headers, encode_json(status_tree(error)))

    async def json(self, code: int, body: bytes, warnings: Iterable[str] = ()) -> None:
        headers = _JSON
        if warnings:
            headers = [*_JSON, *((b"warning", _warning(text)) for text in warnings)]
        await self.send_whole(code, headers, body)

    async def text(self, code: int, text: str) -> None:
        await self.send_whole(code, _TEXT, text.encode())

    async def send_whole(self, code: int, headers: Headers, body: bytes) -> None:
        await self.start(code, [*headers, (b"content-length", b"%d" % len(body))])
        await self._send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

    async def chunks(self, chunks: Iterable[bytes]) -> None:
        """Answer 200 with JSON in several parts."""
        await self.start(200, _JSON)
        for chunk in chunks:
            await self.part(chunk)
            await asyncio.sleep(0)  # others need not wait until the last row of a table is made up
        await self.end()

    async def start(self, code: int, headers: Headers) -> None:
        self._started = True
        headers = [*headers, *self._warnings]
        await self._send({"type": "http.response.start", "status": code, "headers": headers})

    async def part(self, data: bytes) -> None:
        """Send on, once the client has taken what was sent before; the protocol ends those who do not."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})


def _warning(text: str) -> bytes:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", " ")
    return f'299 - "{quoted}"'.encode("latin-1", "replace")
