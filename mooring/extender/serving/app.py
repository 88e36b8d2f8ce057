"""The ASGI application: checks requests, hands their bodies to the verbs, and sends what they answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from time import perf_counter
from typing import Any

import msgspec

from mooring.extender.serving.metrics import ExtenderMetrics
from mooring.extender.serving.questions import BadRequestError
from mooring.extender.serving.verbs import Verb
from mooring.metrics import encode
from mooring.serving.health import Check, HealthRecord, health_routes
from mooring.serving.messages import JSON, NO_SNIFFING, Answer, Handler, Request

log = logging.getLogger("mooring.extender")

LARGEST_BODY = 128 << 20  # bytes; the whole nodes of the largest clusters that Kubernetes supports
REQUESTS = logging.INFO - 2  # what --v=2 shows
_READING = ("GET", "HEAD")
_CLOSE = (b"connection", b"close")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class RefusalError(Exception):
    """A request that no verb gets to see."""

    def __init__(self, status: int, message: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class DisconnectedError(Exception):
    """The client went away in the middle of its request."""


class App:
    """Verbs behind their paths, health and metrics.

    `not_ready` says what is missing before questions can be answered; nothing where nothing is.
    With `needs_certificate`, only clients that showed one may ask for a verb or for the metrics.
    """

    def __init__(
        self,
        verbs: Iterable[Verb],
        metrics: ExtenderMetrics,
        *,
        not_ready: Callable[[], str] = lambda: "",
        needs_certificate: bool = False,
    ) -> None:
        self._verbs = {verb.path: verb for verb in verbs}
        self._metrics = metrics
        self._not_ready = not_ready
        self._needs_certificate = needs_certificate
        record = HealthRecord()
        self._open: dict[str, Handler] = {
            **health_routes("healthz", (), record),
            **health_routes("livez", (), record),
            **health_routes("readyz", (Check("synced", not_ready),), record),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive)
        except RefusalError as refusal:
            verb = self._verbs.get(scope["path"])
            self._metrics.refused(verb.verb if verb else "", verb.path if verb else "", refusal.status)
            fields = {"method": scope["method"], "path": scope["path"], "code": refusal.status}
            log.log(REQUESTS, "Refused", extra={"fields": {**fields, "error": str(refusal)}})
            answer = _error(refusal.status, str(refusal), *refusal.headers)
        except DisconnectedError:
            return
        except Exception as bug:
            log.error("answering %s %s", scope["method"], scope["path"], exc_info=bug)
            answer = _error(500, "the extender failed; its log says where", _CLOSE)
        await _send(answer, scope, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, method = scope["path"], scope["method"]
        handler = self._open.get(path)
        if handler is None:
            if self._needs_certificate and scope["state"].get("certificate") is None:
                message = "found no client certificate that names somebody, expected one of --client-ca-file"
                raise RefusalError(401, message, _CLOSE)
            verb = self._verbs.get(path)
            if verb is not None:
                return await self._ask(verb, scope, receive)
            if path != "/metrics":
                known = ", ".join([*self._verbs, "/healthz", "/readyz", "/metrics"])
                raise RefusalError(404, f"found path {path[:200]}, expected one of {known}", _CLOSE)
        if method not in _READING:
            raise RefusalError(405, f"found {method}, expected GET or HEAD", (b"allow", b"GET, HEAD"), _CLOSE)
        headers = dict(scope["headers"])
        return await (handler or self._show_metrics)(Request(method, path, headers=headers))

    async def _ask(self, verb: Verb, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] != "POST":
            raise RefusalError(405, f"found {scope['method']}, expected POST", (b"allow", b"POST"), _CLOSE)
        body = await self._body(scope["headers"], receive)
        began = perf_counter()
        missing = self._not_ready()
        if missing:
            raise RefusalError(503, f"not ready: {missing}", (b"retry-after", b"1"))
        try:
            outcome = await verb.answer(body)
        except BadRequestError as error:
            raise RefusalError(400, str(error)) from None
        seconds = perf_counter() - began
        self._metrics.answered(verb.verb, verb.path, outcome.status, bool(outcome.error), seconds)
        if log.isEnabledFor(REQUESTS):
            told = {"error": outcome.error} if outcome.error else {"answer": outcome.told}
            fields = {"verb": verb.verb, "path": verb.path, "pod": outcome.pod, **told}
            log.log(
                REQUESTS, "Answered", extra={"fields": {**fields, "milliseconds": round(seconds * 1e3, 3)}}
            )
        return Answer(outcome.status, outcome.body, JSON)

    async def _body(self, headers: Iterable[tuple[bytes, bytes]], receive: Receive) -> bytes:
        """The whole body of a JSON request."""
        given = dict(headers)
        kind = given.get(b"content-type", b"").decode("latin-1")
        if kind.partition(";")[0].strip().lower() != JSON:
            raise RefusalError(415, f'found content type "{kind[:100]}", expected {JSON}', _CLOSE)
        too_large = RefusalError(413, f"found more than {LARGEST_BODY} bytes, expected at most that", _CLOSE)
        length = given.get(b"content-length", b"0")
        if length.isdigit() and int(length) > LARGEST_BODY:
            raise too_large
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise DisconnectedError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > LARGEST_BODY:
                raise too_large
            more = message.get("more_body", False)
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if not _is_utf8(body):
            raise RefusalError(400, "request body is not valid UTF-8")
        return body

    async def _show_metrics(self, request: Request) -> Answer:
        families = list(self._metrics.registry.collect())
        body, content_type = await asyncio.to_thread(encode, families, request.header(b"accept"))
        return Answer(body=body, content_type=content_type)


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _error(status: int, message: str, *headers: tuple[bytes, bytes]) -> Answer:
    """A refusal in the words of the protocol, which calls it an Error."""
    body = msgspec.json.encode({"Error": message})
    return Answer(status, body, JSON, (NO_SNIFFING, *headers))


async def _send(answer: Answer, scope: Scope, send: Send) -> None:
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})
