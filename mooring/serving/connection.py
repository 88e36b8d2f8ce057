"""One connection: uvicorn's HTTP protocol, with bounds on size and time."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import httptools
import uvicorn
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from mooring.serving.limits import Limits
from mooring.serving.messages import Answer, ClientCertificate, User
from mooring.serving.shared_turns import SharedTurns

AUTHENTICATED = "system:authenticated"

_PIECE = 16 * 1024  # bytes parsed in one turn of the loop: some hundred requests or thousand chunks
_UPGRADED_PIECE = 2 * 1024  # after an upgrade: some hundred messages
_MOST_UPGRADED_PIECES = 32
_MOST_PIECES = 4  # to be parsed later while more is read
_PER_LINE = 4  # bytes of a header line: colon, space and line end
_LARGE = 64 * 1024  # bytes from which copying costs more than a system call

# What clients send that is not HTTP does not belong in the log, and failures are logged by `Application`.
_silent = logging.getLogger("mooring.serving.http")
_silent.setLevel(logging.CRITICAL)
log = logging.getLogger("mooring.serving")


class Connection(HttpToolsProtocol):
    """Rejects heads that are too large, drops clients that are too slow, and writes answers in one piece.

    `make_error` makes the answer to a request that cannot be read. `on_lost` is called at the end.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        limits: Limits,
        make_error: Callable[[int, str], Answer],
        on_lost: Callable[[Connection], object],
        turns: SharedTurns,
    ) -> None:
        super().__init__(config, server_state, app_state={})
        self.logger = _silent
        self.access_log = False
        self._limits = limits
        self._head_limit = limits.head_bytes
        self._make_error = make_error
        self._on_lost = on_lost
        self._turns = turns
        self.is_made = False  # the TLS handshake is complete
        self.received = 0  # bytes
        self._pieces: deque[bytes] = deque()  # that are not parsed yet
        self._parsing: asyncio.Handle | None = None
        self._held_since: float | None = None
        self._running: RequestResponseCycle | None = None
        self._in_head = True
        self._head_bytes = 0  # of the URL and the headers that were parsed
        self._unparsed_bytes = 0  # since the parser last had something complete
        self._request_since: float | None = None
        self._answer_since: float | None = None
        self._unread_since: float | None = None
        self._receive: Callable[[bytes], object] | None = None  # after an upgrade
        self._waits_for_turn = False  # in which it receives the next piece

    @property
    def idle(self) -> bool:
        """Whether no answer is in progress; also while the connection is being closed."""
        return self.is_made and self._receive is None and (self.cycle is None or self.cycle.response_complete)

    def upgrade(self, head: bytes, receive: Callable[[bytes], object]) -> None:
        """Answer the current request with `head`, and hand what the client sends from now on to `receive`: no
        bytes at the end of the connection."""
        assert self._running is not None
        self._running.response_started = self._running.response_complete = True
        self._drop_pieces()
        self._answer_since = self._request_since = None
        self._receive = receive
        self.transport.write(head)

    def pause(self, *, paused: bool) -> None:
        """Stop reading from the client, or go on."""
        if paused:
            self.flow.pause_reading()
        else:
            self.flow.resume_reading()

    async def send(self, data: bytes) -> None:
        """Send bytes after an upgrade, once the client has read what was sent before."""
        await self.flow.drain()
        if not self.transport.is_closing():
            self.transport.write(data)

    # ---- the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._gathering = _GatheringTransport(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._gathering))
        self.flow = self._reading = _Reading(cast(asyncio.Transport, self._gathering))
        self.is_made = True
        self.app_state["transport"] = transport
        self.app_state["connection"] = self
        self.app_state["certificate"] = client_certificate(transport.get_extra_info("peercert"))
        self._request_since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._receive is None:
            self._drop_pieces()
        else:
            self._pieces.append(b"")  # after what was sent before
            self._wait_for_turn()
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True  # uvicorn only looks at the request that came last
            self._running.message_event.set()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._on_lost(self)
        self._break_cycles()

    def _break_cycles(self) -> None:
        """Forget what refers to this connection: its memory, with that of TLS, is free at once, not after the
        next run of the garbage collector."""
        self.app_state.clear()
        self.scope = self.cycle = self._running = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Parse data. Large amounts take several turns of the loop, and wait for requests in the pipeline,
        so that few are held at a time."""
        self.received += len(data)
        size = _PIECE if self._receive is None else _UPGRADED_PIECE
        self._pieces.extend(data[start : start + size] for start in range(0, len(data), size))
        if self._receive is not None:
            self._wait_for_turn()
        elif self._parsing is None:
            self._parse()

    def _parse(self) -> None:
        """Parse the next piece, and schedule the one after it. The parser gathers a name or value until it is
        complete, so bytes are counted here."""
        self._parsing = None
        if self.transport.is_closing():
            self._pieces.clear()
            return
        if self._pieces and not self.pipeline:
            piece = self._pieces.popleft()
            self._unparsed_bytes += len(piece)
            super().data_received(piece)
            if self._head_bytes + self._unparsed_bytes > self._head_limit:
                self.send_400_response("")
            if self.transport.is_closing():
                return
        if self._pieces and not self.pipeline:
            self._parsing = self.loop.call_soon(self._parse)
        self._hold(len(self._pieces) > _MOST_PIECES)

    def _wait_for_turn(self) -> None:
        """Have the next piece handed on after an upgrade. A message may be a few bytes, and all clients may
        send at once, so connections share their turns."""
        if self._pieces and not self._waits_for_turn:
            self._waits_for_turn = True
            self._turns.add(self._receive_piece)

    def _receive_piece(self) -> None:
        assert self._receive is not None
        self._waits_for_turn = False
        self._receive(self._pieces.popleft())
        self._wait_for_turn()
        if not self.transport.is_closing():
            self._hold(len(self._pieces) > _MOST_UPGRADED_PIECES)

    def _drop_pieces(self) -> None:
        self._pieces.clear()
        if self._parsing is not None:
            self._parsing.cancel()
            self._parsing = None

    def _hold(self, held: bool) -> None:
        """Stop reading while much is to be parsed. A transport that does not read does not notice that its
        client disconnects, so this has a time limit."""
        self._held_since = self.loop.time() if held else None
        self._reading.hold(held)

    def pause_writing(self) -> None:
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    # ---- the parser

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = self._unparsed_bytes = 0
        self._request_since = self.loop.time()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + _PER_LINE)
        if self._in_head:  # trailers count, and are ignored
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unparsed_bytes = 0
        if self._answer_since is None:
            self._answer_since = self.loop.time()
        super().on_headers_complete()
        if self.pipeline:  # what is received meanwhile has a bound of its own
            self._reading.resume_reading()

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._head_bytes = self._unparsed_bytes = 0
        self._request_since = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._gathering.flush()
        self._answer_since = self.loop.time() if self.pipeline else None
        super().on_response_complete()
        if self._pieces and self._parsing is None and self._receive is None:
            self._parsing = self.loop.call_soon(self._parse)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _unsupported_upgrade_warning(self) -> None:
        """No warning: the answer says why there is no stream, for example to `kubectl exec`."""

    # ---- bounds

    def _count(self, size: int) -> None:
        self._unparsed_bytes = 0
        self._head_bytes += size
        if self._head_bytes > self._head_limit:
            raise httptools.HttpParserError("head too large")

    def check_time(self, now: float) -> None:
        """Drop a client that does not read, reject a request that does not come to an end."""
        limits = self._limits
        if self.transport.is_closing():
            if self._request_since is not None:  # rejected; the rest of it is not waited for
                self.transport.abort()
        elif _is_over(self._unread_since, limits.send_seconds, now):
            path = self.scope.get("path") if self.scope is not None else None
            log.warning("dropped the connection that requested %s: its client does not read", path)
            self.transport.abort()
        elif any(
            _is_over(since, seconds, now)
            for since, seconds in (
                (self._held_since, limits.request_seconds),
                (self._answer_since, limits.answer_seconds),
            )
        ):
            self.transport.abort()
        else:
            seconds = limits.head_seconds if self._in_head else limits.request_seconds
            if _is_over(self._request_since, seconds, now):
                self._reject(408, f"request not received within {seconds:g} seconds")

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes + self._unparsed_bytes > self._head_limit:
            self._reject(431, f"request URL and headers exceed {self._head_limit} bytes")
        else:
            self._reject(400, msg)

    def _reject(self, code: int, message: str) -> None:
        """Answer a request that cannot be read, unless an answer is on its way already, and close."""
        if self.transport.is_closing():
            return
        running = self._running
        if running is not None and running.response_started and not running.response_complete:
            self.transport.abort()
            return
        answer = self._make_error(code, message)
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        head %= (answer.content_type.encode(), len(answer.body))
        self.transport.write(STATUS_LINE[code] + head + answer.body)
        self.transport.close()


def _is_over(since: float | None, seconds: float | None, now: float) -> bool:
    return since is not None and seconds is not None and now - since > seconds


class _Reading(FlowControl):
    """Reads from a transport unless uvicorn pauses it, or it is held."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.is_held = self._paused = False

    def hold(self, held: bool) -> None:
        self.is_held = held
        self._update()

    def pause_reading(self) -> None:
        self.read_paused = True
        self._update()

    def resume_reading(self) -> None:
        self.read_paused = False
        self._update()

    def _update(self) -> None:
        paused = self.read_paused or self.is_held
        if paused != self._paused and not self._transport.is_closing():
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()


class _GatheringTransport:
    """A transport that sends what was written in one turn of the loop in one piece: one record of TLS and one
    system call instead of one for the head and one for the body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if len(data) > _LARGE:
            self.flush()
            self._transport.write(data)
            return
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def client_certificate(certificate: dict[str, Any] | None) -> ClientCertificate | None:
    """Return the user of a verified certificate: the common name; its organizations are the groups."""
    name, groups = "", []
    for part in (certificate or {}).get("subject", ()):
        for kind, value in part:
            if kind == "commonName":
                name = value
            elif kind == "organizationName":
                groups.append(value)
    if not name or certificate is None:
        return None
    user = User(username=name, groups=(*groups, AUTHENTICATED))
    return ClientCertificate(user, ssl.cert_time_to_seconds(certificate["notAfter"]))
