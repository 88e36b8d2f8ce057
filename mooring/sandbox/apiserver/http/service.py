"""The API as a service over HTTP: authenticate, authorize, dispatch, write the answer."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import TypeVar, TypeVarTuple, Unpack
from urllib.parse import quote

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.accounts import user_of
from mooring.sandbox.apiserver.aggregation.remotes import Remote, Remotes
from mooring.sandbox.apiserver.aggregation.upstream import Identity
from mooring.sandbox.apiserver.answering import answer_request
from mooring.sandbox.apiserver.authorization.flows import Flows
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.evaluations import Evaluator
from mooring.sandbox.apiserver.discovery import Discovery
from mooring.sandbox.apiserver.errors import (
    bad_request,
    internal,
    status_tree,
    too_large_body,
    too_many_requests,
    unauthorized,
)
from mooring.sandbox.apiserver.http.aggregated import attributes_of_path, forward, is_watch, read
from mooring.sandbox.apiserver.http.attaching import serve_attachment
from mooring.sandbox.apiserver.http.gate import acting, attributes_of
from mooring.sandbox.apiserver.http.health_checks import health_checks
from mooring.sandbox.apiserver.http.log_stream import send_text, wants_websocket, whole
from mooring.sandbox.apiserver.http.negotiation import representation, wants_aggregated_discovery
from mooring.sandbox.apiserver.http.openapi import openapi_reply
from mooring.sandbox.apiserver.http.paths import Target, find_target, names_objects, verb_of
from mooring.sandbox.apiserver.http.port_forwarding import forward_ports
from mooring.sandbox.apiserver.http.remote_command import serve_command
from mooring.sandbox.apiserver.http.representation import Representation
from mooring.sandbox.apiserver.http.request_metrics import RequestMetrics, encode
from mooring.sandbox.apiserver.kinds import protobuf
from mooring.sandbox.apiserver.objects import encode_json
from mooring.sandbox.apiserver.openapi.documents import OpenAPI
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.store.store import StoreFailedError
from mooring.sandbox.apiserver.verbs.request import (
    AttachAnswer,
    CommandAnswer,
    ListAnswer,
    ObjectAnswer,
    PortsAnswer,
    ReplyAnswer,
    Request,
    TextAnswer,
    TextStreamAnswer,
    TreeAnswer,
    WatchAnswer,
)
from mooring.sandbox.apiserver.verbs.watching import Batch
from mooring.sandbox.network.messages import Query
from mooring.serving.exchange import BodyTooLargeError, Exchange, TooManyParametersError
from mooring.serving.health import HealthRecord, health_routes
from mooring.serving.messages import JSON, NO_SNIFFING, REASONS, TEXT, Answer, Handler, Header
from mooring.serving.messages import Request as PageRequest
from mooring.serving.routing import find_handler

T = TypeVar("T")
Args = TypeVarTuple("Args")

LARGEST_BODY = 3 * 1024 * 1024
MOST_WATCHES = 10_000
MOST_WATCHES_OF_USER = 5_000
MOST_WARNING_TEXT = 4096  # characters of all warnings of an answer
LONGEST_WARNING = 256  # if they are more together
_JSON: list[Header] = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]
_TEXT: list[Header] = [(b"content-type", TEXT.encode()), NO_SNIFFING]
_DEPRECATED = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_OF_CONNECTION = frozenset(
    (
        "authorization",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
    )
)
"""Headers that are not forwarded."""
_MUCH = 128 * 1024  # bytes of objects that are encoded in a thread
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)


class ApiService:
    """One API over HTTP for clients with a token, and `pages`: handlers of others in this process by path.
    A path that ends in a slash stands for all below it."""

    def __init__(
        self,
        api: Api,
        version: dict[str, str],
        pages: Mapping[str, Handler] | None = None,
        remotes: Remotes | None = None,
        identity: Identity | None = None,
    ) -> None:
        self._api = api
        self._remotes = remotes or Remotes(api)
        self._identity = identity
        self._pages = {} if pages is None else pages
        self._version = encode_json(version)
        self._discovery = Discovery(api.registry, self._remotes)
        self._openapi = OpenAPI(api.registry, version["gitVersion"])
        self._describing = asyncio.Lock()
        """Held by the request whose document is made in a thread."""
        self._watches = Counter[str]()  # by user
        self._flows = Flows(api.store)
        self._metrics = RequestMetrics(self._flows)
        self._checked = HealthRecord()
        self._health = {
            path: handler
            for name, checks in health_checks(self._store_problem).items()
            for path, handler in health_routes(name, checks, self._checked).items()
        }

    async def answer(self, exchange: Exchange) -> None:
        try:
            await self._answer(exchange)
        except ApiError as error:
            await _send_error(exchange, error)
        except StoreFailedError as error:
            await _send_error(exchange, internal(str(error)))

    def error(self, code: int, message: str) -> Answer:
        error = internal(message) if code == 500 else ApiError(code, REASONS[code], message)
        return Answer(code, encode_json(status_tree(error)), JSON)

    async def _answer(self, exchange: Exchange) -> None:
        path = exchange.path
        if (check := self._health.get(path)) is not None:
            await exchange.send(await check(PageRequest("GET", path, _params(exchange))))
            return
        user = acting(self._api, self._authenticate(exchange), exchange.headers)
        remote = self._remotes.find(path)
        if remote is not None:
            await self._answer_remotely(exchange, user, remote)
            return
        if names_objects(path):
            await self._answer_api(exchange, user)
            return
        _check_timeout(_params(exchange))
        self._authorize(exchange, user, Attributes(exchange.method.lower(), path=path))
        if path in ("/", "/index.html"):
            await _send_json(exchange, 200, json.dumps({"paths": self._paths()}, indent=2).encode())
        elif path in ("/version", "/version/"):
            await _send_json(exchange, 200, self._version)
        elif path.startswith(("/api/", "/apis/")) or path in ("/api", "/apis"):
            await self._answer_discovery(exchange)
        elif path.startswith("/openapi/"):
            remote = self._remotes.find(path.removeprefix("/openapi/v3"))
            if remote is not None and remote.openapi is not None:
                await self._answer_remote_openapi(exchange, user, remote)
            else:
                await self._answer_openapi(exchange)
        elif path in ("/metrics", "/metrics/slis"):
            metrics = self._metrics if path == "/metrics" else await self._check_health()
            body, media = encode(metrics, exchange.header(b"accept"))
            await exchange.send_whole(200, [(b"content-type", media.encode())], body)
        elif (page := find_handler(self._pages, path)) is not None and exchange.method == "GET":
            await exchange.send(await page(PageRequest("GET", path, _params(exchange))))
        else:
            await _send_text(exchange, 404, "404 page not found\n")

    async def _answer_remotely(self, exchange: Exchange, user: User, remote: Remote) -> None:
        """Have the server behind an APIService answer."""
        params = _params(exchange)
        watch = is_watch(exchange.path, params)
        if names_objects(exchange.path):
            self._authorize(exchange, user, attributes_of_path(exchange.method, exchange.path, watch=watch))
        else:
            self._authorize(exchange, user, Attributes(exchange.method.lower(), path=exchange.path))
        if not remote.is_available:
            await _send_text(exchange, 503, "service unavailable\n")
            return
        body = b"" if exchange.method == "GET" else await _body(exchange)
        answer = await forward(self._api, exchange, remote, user, body, self._identity)
        if not watch:
            await exchange.send_whole(answer.status, answer.headers, await read(answer))
            return
        with self._counted_stream(exchange, user.name) as gone:
            gone.add_done_callback(lambda _: answer.close())
            await exchange.start(answer.status, answer.headers)
            with suppress(OSError, ValueError):  # the watch ends where the connection does
                async for part in answer.parts:
                    await exchange.part(part)
            await exchange.end()

    async def _answer_remote_openapi(self, exchange: Exchange, user: User, remote: Remote) -> None:
        answer = await forward(self._api, exchange, remote, user, b"", self._identity)
        await exchange.send_whole(answer.status, answer.headers, await read(answer))

    async def _check_health(self) -> HealthRecord:
        """Run the checks, as no kubelet probes this server, and return all results so far."""
        for path in ("/livez", "/readyz"):
            await self._health[path](PageRequest("GET", path))
        return self._checked

    def _paths(self) -> list[str]:
        """Return what the root lists."""
        others = ("/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version")
        return sorted({*self._discovery.paths(), *self._health, *others})

    def _authenticate(self, exchange: Exchange) -> User:
        """Return the user of a client certificate or of a bearer token. Raises 401."""
        certificate = exchange.certificate
        if certificate is not None and time.time() < certificate.expires:
            return User(certificate.user.username, certificate.user.groups)
        user = user_of(self._api, _token(exchange))
        if user is None:
            raise unauthorized()
        return user

    def _authorize(self, exchange: Exchange, user: User, attributes: Attributes) -> None:
        """Check that the user may do this, and send to which flow it belongs. Raises 403."""
        flow = self._flows.classify(user, attributes)
        if flow is not None:
            exchange.extra_headers += [
                (b"x-kubernetes-pf-flowschema-uid", flow.schema.encode()),
                (b"x-kubernetes-pf-prioritylevel-uid", flow.level.encode()),
            ]
        self._api.rbac.check(user, attributes)

    def _store_problem(self) -> str:
        try:
            self._api.store.check()
        except StoreFailedError as error:
            return str(error)
        return ""

    async def _answer_api(self, exchange: Exchange, user: User) -> None:
        target = find_target(self._api.registry, exchange.path)
        if target is None:
            await _send_text(exchange, 404, "404 page not found\n")
            return
        deprecation = target.resource.deprecation or _DEPRECATED.get(target.resource.storage)
        if deprecation is not None:
            exchange.extra_headers += _warnings([deprecation])
        params = _params(exchange)
        watch = (params.get("watch") or ["false"])[0].lower() not in ("", "false", "0")
        is_proxied = target.subresource is not None and target.subresource.name == "proxy"
        if not (watch or is_proxied):  # what is proxied has parameters of its own
            _check_timeout(params)
        verb = verb_of(exchange.method, target, watch)
        began, code = time.perf_counter(), 500
        try:
            self._authorize(exchange, user, attributes_of(verb, target, params))
            code = await self._answer_target(exchange, user, target, verb, params)
        except ApiError as error:
            code = error.code
            raise
        finally:
            dry_run = "All" if "All" in params.get("dryRun", ()) else ""
            self._metrics.observe(verb, target, dry_run, code, time.perf_counter() - began)

    async def _answer_target(
        self, exchange: Exchange, user: User, target: Target, verb: str, params: Mapping[str, list[str]]
    ) -> int:
        content_type = exchange.header(b"content-type")
        body = b"" if exchange.method == "GET" else await _body(exchange)
        request = Request(
            self._api,
            verb,
            target.resource,
            target.namespace,
            target.name,
            user,
            target.subresource,
            params,
            _readable(body, content_type),
            content_type,
            exchange.header(b"user-agent"),
            path=target.path,
            proxied=_proxied(exchange, target, body),
        )
        return await self._answer_request(exchange, request)

    async def _answer_discovery(self, exchange: Exchange) -> None:
        accept = exchange.header(b"accept")
        path = exchange.path.rstrip("/")
        aggregated = path in ("/api", "/apis") and wants_aggregated_discovery(accept)
        document = self._discovery.document(path, exchange.header(b"host"), aggregated=aggregated)
        if document is None:
            await _send_text(exchange, 404, "404 page not found\n")
            return
        media = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        headers = [
            (b"content-type", media if aggregated else b"application/json"),
            (b"etag", document.etag.encode()),
            (b"vary", b"Accept"),
        ]
        unchanged = exchange.header(b"if-none-match") == document.etag
        await exchange.send_whole(304 if unchanged else 200, headers, b"" if unchanged else document.body)

    async def _answer_openapi(self, exchange: Exchange) -> None:
        accept, cached = exchange.header(b"accept"), exchange.header(b"if-none-match")
        params, now = _params(exchange), self._api.clock()
        remote = {one.path[1:]: one.openapi for one in self._remotes.all() if one.openapi is not None}
        async with self._describing:
            reply = await asyncio.to_thread(
                openapi_reply, self._openapi, exchange.path, params, accept, cached, now, remote
            )
        await exchange.send_whole(*reply)

    async def _answer_request(self, exchange: Exchange, request: Request) -> int:
        """Answer a request and return the status code."""
        accept = exchange.header(b"accept") if request.proxied is None else ""
        shown = representation(accept, request.params, self._api.clock)
        evaluator = Evaluator(self._api.evaluations, request.user.name)
        try:
            answer = await answer_request(request)
        except ApiError:
            exchange.extra_headers += _warnings(request.warnings)
            raise
        await self._api.store.settled()
        if isinstance(answer, ObjectAnswer):
            size = len(answer.record.tail)
            body = await _encode(size, shown.single, answer.resource, answer.record)
            await _send_json(exchange, answer.code, body, answer.warnings)
        elif isinstance(answer, ListAnswer):
            size = _size(answer.listing.records)
            await _send_chunks(exchange, shown.listed(answer.resource, answer.listing), size)
        elif isinstance(answer, TreeAnswer):
            await _send_json(exchange, answer.code, shown.tree(answer.tree), answer.warnings)
        elif isinstance(answer, WatchAnswer):
            await self._stream(exchange, request.user.name, answer, shown)
        elif isinstance(answer, TextAnswer | TextStreamAnswer) and wants_websocket(exchange):
            texts = whole(answer.text) if isinstance(answer, TextAnswer) else answer.texts
            with self._stream_slot(request.user.name):
                await send_text(exchange, texts)
            return 101
        elif isinstance(answer, TextAnswer):
            await _send_text(exchange, 200, answer.text)
        elif isinstance(answer, ReplyAnswer):
            reply = answer.reply
            headers = [
                (name.encode(), value.encode("latin-1", "replace")) for name, value in reply.headers.items()
            ]
            await exchange.send_whole(reply.status, headers, reply.body)
            return reply.status
        elif isinstance(answer, TextStreamAnswer):
            await self._stream_text(exchange, request.user.name, answer)
        elif isinstance(answer, CommandAnswer):
            with self._stream_slot(request.user.name):
                await serve_command(exchange, answer, self._api.clock, evaluator)
            return 101
        elif isinstance(answer, AttachAnswer):
            with self._stream_slot(request.user.name):
                await serve_attachment(exchange, answer, self._api.clock, evaluator)
            return 101
        elif isinstance(answer, PortsAnswer):
            with self._stream_slot(request.user.name):
                await forward_ports(exchange, answer, evaluator)
            return 101
        return answer.code if isinstance(answer, ObjectAnswer | TreeAnswer) else 200

    async def _stream_text(self, exchange: Exchange, user: str, answer: TextStreamAnswer) -> None:
        with self._counted_stream(exchange, user) as gone:
            await exchange.start(200, _TEXT)
            async for text in answer.texts:
                if gone.done():
                    return
                if text:
                    await exchange.part(text.encode())
            await exchange.end()

    @contextmanager
    def _stream_slot(self, user: str) -> Iterator[None]:
        """Count a stream. Raises 429 if there are too many."""
        if self._watches.total() >= MOST_WATCHES:
            raise too_many_requests(f"more than {MOST_WATCHES} watches, please try again later", 1)
        if self._watches[user] >= MOST_WATCHES_OF_USER:
            why = f"more than {MOST_WATCHES_OF_USER} watches of one user, please try again later"
            raise too_many_requests(why, 1)
        self._watches[user] += 1
        try:
            yield
        finally:
            self._watches[user] -= 1
            if not self._watches[user]:
                del self._watches[user]

    @contextmanager
    def _counted_stream(self, exchange: Exchange, user: str) -> Iterator[asyncio.Future[None]]:
        """Count a stream; the future is done when the client has disconnected."""
        with self._stream_slot(user):
            gone = asyncio.ensure_future(exchange.disconnected())
            try:
                yield gone
            finally:
                gone.cancel()

    async def _stream(
        self, exchange: Exchange, user: str, answer: WatchAnswer, shown: Representation
    ) -> None:
        with self._counted_stream(exchange, user) as gone:
            gone.add_done_callback(lambda _: answer.watching.close())
            try:
                await exchange.start(200, _JSON)
                async for batch in answer.watching.batches():
                    size = _size(record for _, record in batch.changes)
                    await exchange.part(await _encode(size, _lines, answer, batch, shown))
            except ApiError as error:
                await exchange.part(encode_json({"type": "ERROR", "object": status_tree(error)}) + b"\n")
            await exchange.end()


def _proxied(exchange: Exchange, target: Target, body: bytes) -> Query | None:
    """Return the request that the subresource `proxy` forwards, without credentials."""
    if target.subresource is None or target.subresource.name != "proxy":
        return None
    path = f"/{target.path}" if target.path or exchange.path.endswith("/") else ""
    path += "/" if target.path and exchange.path.endswith("/") else ""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.headers}
    kept = {name: value for name, value in headers.items() if name not in _OF_CONNECTION}
    query = f"?{exchange.query}" if exchange.query else ""
    return Query(exchange.method, quote(path) + query, kept, body)


def _readable(body: bytes, content_type: str) -> bytes:
    """Return a body that is UTF-8: what is not is replaced, as Go's JSON does, not rejected."""
    if body.isascii() or content_type.startswith(protobuf.MEDIA_TYPE):
        return body
    return body.decode("utf-8", "replace").encode()


def _lines(answer: WatchAnswer, batch: Batch, shown: Representation) -> bytes:
    resource = answer.resource
    lines = [shown.event(resource, type, record) for type, record in batch.changes]
    if batch.bookmark:
        lines.append(shown.bookmark(resource, batch.bookmark, batch.annotations))
    return b"".join(lines)


def _token(exchange: Exchange) -> str:
    """Return the bearer token of a request; empty if there is none."""
    scheme, _, token = exchange.header(b"authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _params(exchange: Exchange) -> dict[str, list[str]]:
    try:
        return exchange.params()
    except TooManyParametersError as error:
        raise bad_request(str(error)) from None


def _check_timeout(params: Mapping[str, list[str]]) -> None:
    """Reject an invalid `timeout`. A valid one has no effect: requests are answered at once."""
    text = (params.get("timeout") or [""])[0]
    if text and not _DURATION.fullmatch(text):
        why = f"time: invalid duration {json.dumps(text, ensure_ascii=False)}"
        raise bad_request(f"invalid timeout specified in the request URL - {why}")


async def _body(exchange: Exchange) -> bytes:
    try:
        return await exchange.body(LARGEST_BODY)
    except BodyTooLargeError as error:
        raise too_large_body(error.limit) from None


async def _send_error(exchange: Exchange, error: ApiError) -> None:
    """Answer with a Status, unless an answer is on its way already."""
    if exchange.started:
        return
    headers = list(_JSON)
    if error.retry_after:
        headers.append((b"retry-after", str(int(error.retry_after)).encode()))
    await exchange.send_whole(error.code, headers, encode_json(status_tree(error)))


async def _send_json(exchange: Exchange, code: int, body: bytes, warnings: Iterable[str] = ()) -> None:
    headers = _JSON
    if warnings:
        headers = [*_JSON, *_warnings(warnings)]
    await exchange.send_whole(code, headers, body)


async def _send_text(exchange: Exchange, code: int, text: str) -> None:
    await exchange.send_whole(code, _TEXT, text.encode())


async def _send_chunks(exchange: Exchange, chunks: Iterator[bytes], size: int) -> None:
    """Answer 200 with JSON in several parts, made of objects that have so many bytes together."""
    await exchange.start(200, _JSON)
    while (chunk := await _encode(size, next, chunks, None)) is not None:
        await exchange.part(chunk)
        await asyncio.sleep(0)
    await exchange.end()


async def _encode(size: int, encode: Callable[[Unpack[Args]], T], *args: *Args) -> T:
    """Return what `encode` returns; if it reads much, others need not wait for it."""
    return encode(*args) if size < _MUCH else await asyncio.to_thread(encode, *args)


def _size(records: Iterable[Record]) -> int:
    return sum(len(record.tail) for record in records)


def _warnings(texts: Iterable[str]) -> list[Header]:
    """Return warnings as headers, as Kubernetes sends them: each once, none with control characters, and long
    ones cut short if they are too long together."""
    sent = [text for text in dict.fromkeys(texts) if not _CONTROL.search(text)]
    if sum(map(len, sent)) > MOST_WARNING_TEXT:
        sent = [text[:LONGEST_WARNING] for text in sent]
        lengths = accumulate(map(len, sent), initial=0)
        sent = [text for text, before in zip(sent, lengths, strict=False) if before < MOST_WARNING_TEXT]
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in sent]
    return [(b"warning", f'299 - "{text}"'.encode("utf-8", "replace")) for text in quoted]
