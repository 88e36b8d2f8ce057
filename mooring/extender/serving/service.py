"""The service of an extender: check requests, pass their bodies to the verbs, send the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from time import perf_counter

import msgspec

from mooring.extender.serving.metrics import ExtenderMetrics
from mooring.extender.serving.questions import BadRequestError
from mooring.extender.serving.verbs import Verb
from mooring.metrics import encode
from mooring.serving.exchange import BodyTooLargeError, Exchange
from mooring.serving.health import Check, HealthRecord, health_routes
from mooring.serving.messages import JSON, NO_SNIFFING, Answer, Handler, Header, Request

log = logging.getLogger("mooring.extender")

LARGEST_BODY = 128 << 20  # bytes; the whole nodes of the largest clusters that Kubernetes supports
REQUESTS = logging.INFO - 2  # what --v=2 shows
_READING = ("GET", "HEAD")


class RejectionError(Exception):
    """A request that no verb gets to see."""

    def __init__(self, status: int, message: str, *headers: Header) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class ExtenderService:
    """Verbs at their paths, health and metrics.

    `not_ready` returns what is missing before requests can be answered; empty when nothing is.
    With `needs_certificate`, only clients that presented one may use verbs and metrics.
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

    async def answer(self, exchange: Exchange) -> None:
        try:
            answer = await self._answer(exchange)
        except RejectionError as rejection:
            path, status, message = exchange.path, rejection.status, str(rejection)
            verb = self._verbs.get(path)
            self._metrics.rejected(verb.verb if verb else "", verb.path if verb else "", status)
            fields = {"method": exchange.method, "path": path, "code": status, "error": message}
            log.log(REQUESTS, "Rejected", extra={"fields": fields})
            answer = self.error(status, message)
            answer.headers += rejection.headers
        await exchange.send(answer)

    def error(self, code: int, message: str) -> Answer:
        """Make an answer as the protocol of extenders does, which calls the message Error."""
        return Answer(code, msgspec.json.encode({"Error": message}), JSON, (NO_SNIFFING,))

    async def _answer(self, exchange: Exchange) -> Answer:
        path, method = exchange.path, exchange.method
        handler = self._open.get(path)
        if handler is None:
            if self._needs_certificate and exchange.certificate is None:
                raise RejectionError(401, "client certificate with a common name required")
            verb = self._verbs.get(path)
            if verb is not None:
                return await self._ask(verb, exchange)
            if path != "/metrics":
                paths = ", ".join([*self._verbs, "/healthz", "/readyz", "/metrics"])
                raise RejectionError(404, f"path {path[:200]} not found; the paths are {paths}")
        if method not in _READING:
            raise RejectionError(405, f"method {method} is not allowed", (b"allow", b"GET, HEAD"))
        headers = dict(exchange.headers)
        return await (handler or self._show_metrics)(Request(method, path, headers=headers))

    async def _ask(self, verb: Verb, exchange: Exchange) -> Answer:
        if exchange.method != "POST":
            raise RejectionError(405, f"method {exchange.method} is not allowed", (b"allow", b"POST"))
        body = await _read_body(exchange)
        began = perf_counter()
        missing = self._not_ready()
        if missing:
            raise RejectionError(503, f"not ready: {missing}", (b"retry-after", b"1"))
        try:
            outcome = await verb.answer(body)
        except BadRequestError as error:
            raise RejectionError(400, str(error)) from None
        seconds = perf_counter() - began
        self._metrics.answered(verb.verb, verb.path, outcome.status, bool(outcome.error), seconds)
        if log.isEnabledFor(REQUESTS):
            result = {"error": outcome.error} if outcome.error else {"answer": outcome.summary}
            fields = {"verb": verb.verb, "path": verb.path, "pod": outcome.pod, **result}
            log.log(
                REQUESTS, "Answered", extra={"fields": {**fields, "milliseconds": round(seconds * 1e3, 3)}}
            )
        return Answer(outcome.status, outcome.body, JSON)

    async def _show_metrics(self, request: Request) -> Answer:
        families = list(self._metrics.registry.collect())
        body, content_type = await asyncio.to_thread(encode, families, request.header(b"accept"))
        return Answer(body=body, content_type=content_type)


async def _read_body(exchange: Exchange) -> bytes:
    """Read the whole body of a JSON request."""
    content_type = exchange.header(b"content-type")
    if content_type.partition(";")[0].strip().lower() != JSON:
        raise RejectionError(415, f'content type "{content_type[:100]}" is not {JSON}')
    length = exchange.header(b"content-length")
    try:
        if length.isdecimal() and int(length[:20]) > LARGEST_BODY:
            raise BodyTooLargeError(LARGEST_BODY)
        body = await exchange.body(LARGEST_BODY)
    except BodyTooLargeError as error:
        raise RejectionError(413, str(error)) from None
    if not _is_utf8(body):
        raise RejectionError(400, "request body is not valid UTF-8")
    return body


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
