"""One request and its answer, and the ASGI application that hands them to a service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol
from urllib.parse import parse_qs

from mooring.serving.messages import Answer, ClientCertificate, Header

log = logging.getLogger("mooring.serving")

MOST_PARAMETERS = 100
_CLOSE = (b"connection", b"close")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class TooManyParametersError(Exception):
    """The query has more than MOST_PARAMETERS parameters."""

    def __init__(self) -> None:
        super().__init__(f"query exceeds {MOST_PARAMETERS} parameters")


class BodyTooLargeError(Exception):
    """The body of a request exceeds `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"request body exceeds {limit} bytes")
        self.limit = limit


class DisconnectedError(Exception):
    """The client disconnected before its request was complete."""


class Upgraded(Protocol):
    """A connection whose client speaks another protocol than HTTP from now on."""

    transport: asyncio.Transport

    def pause(self, *, paused: bool) -> None: ...
    def upgrade(self, head: bytes, receive: Callable[[bytes], object]) -> None: ...
    async def send(self, data: bytes) -> None: ...


class Exchange:
    """One request and the sending of its answer: `send` for a whole one, or `start`, `part`s and `end`."""

    __slots__ = (
        "_body_read",
        "_query",
        "_receive",
        "_send",
        "_state",
        "extra_headers",
        "headers",
        "method",
        "path",
        "started",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: list[Header] = scope["headers"]
        self.extra_headers: list[Header] = []  # sent with the answer, whatever it is
        self.started = False
        self._query: bytes = scope["query_string"]
        self._state: MutableMapping[str, Any] = scope["state"]
        self._receive = receive
        self._send = send
        self._body_read = False

    # ---- the request

    @property
    def certificate(self) -> ClientCertificate | None:
        """The verified certificate of the client."""
        certificate: ClientCertificate | None = self._state["certificate"]
        return certificate

    def upgrade(self, head: bytes, receive: Callable[[bytes], object]) -> Upgraded:
        """Answer with `head`, and hand what follows to `receive`, see `Connection.upgrade`."""
        self.started = True
        connection: Upgraded = self._state["connection"]
        connection.upgrade(head, receive)
        return connection

    def header(self, name: bytes) -> str:
        """Return the first header of a name, given in lower case; empty if there is none."""
        for each, value in self.headers:
            if each == name:
                return value.decode("latin-1")
        return ""

    @property
    def query(self) -> str:
        """The query as it was sent."""
        return self._query.decode("latin-1")

    def params(self) -> dict[str, list[str]]:
        """Return the parameters of the query. Raises TooManyParametersError."""
        if not self._query:
            return {}
        try:
            return parse_qs(
                self._query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS
            )
        except ValueError:
            raise TooManyParametersError from None

    async def body(self, limit: int) -> bytes:
        """Return the whole body. Raises BodyTooLargeError and DisconnectedError."""
        message = await self._receive()
        data: bytes = message.get("body", b"")
        if message.get("more_body"):
            parts, size = [data], len(data)
            while message.get("more_body") and size <= limit:
                message = await self._receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
            data = b"".join(parts)
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        if len(data) > limit:
            raise BodyTooLargeError(limit)
        self._body_read = True
        return data

    async def disconnected(self) -> None:
        """Wait until the client has disconnected."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # ---- the answer

    async def send(self, answer: Answer) -> None:
        headers = [(b"content-type", answer.content_type.encode()), *answer.headers]
        if not self._body_read and self._has_body():
            headers.append(_CLOSE)  # the rest of the body is in the way of the next request
        if answer.stream is None:
            await self.send_whole(answer.status, headers, answer.body)
            return
        await self.start(answer.status, headers)
        if self.method != "HEAD":
            async for piece in answer.stream:
                if self._state["transport"].is_closing():
                    return
                await self.part(piece)
        await self.end()

    async def send_whole(self, status: int, headers: list[Header], body: bytes) -> None:
        await self.start(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self._send({"type": "http.response.body", "body": body})

    async def start(self, status: int, headers: list[Header]) -> None:
        self.started = True
        headers = [*headers, *self.extra_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def part(self, data: bytes) -> None:
        """Send data once the client has read what was sent before."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    def _has_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self.headers
        )


class Service(Protocol):
    """What a server serves."""

    async def answer(self, exchange: Exchange) -> None:
        """Answer one request. DisconnectedError may be left to the caller."""
        ...

    def error(self, code: int, message: str) -> Answer:
        """Make the answer to a request that did not reach `answer`, or whose `answer` failed."""
        ...


class Application:
    """The ASGI application of a service. Failures are logged and answered."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        try:
            await self._service.answer(exchange)
        except DisconnectedError:
            pass
        except Exception:
            log.exception("%s %s failed", exchange.method, exchange.path)
            if not exchange.started:
                await exchange.send(self._service.error(500, "the server failed; see its log"))
