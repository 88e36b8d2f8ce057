"""WebSocket connections: the handshake, and messages in both directions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Final

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import generate_accept_token

from mooring.serving.exchange import Exchange

LONGEST: Final = 1024 * 1024  # bytes of a message
_MOST_UNREAD: Final = 256 * 1024  # bytes after which nothing more is read from the client
_MOST_UNSENT: Final = 1024 * 1024
_PER_FRAME: Final = 64  # bytes that a frame costs in addition
_VERSION: Final = "13"
_HEAD: Final = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: %b\r\n%b\r\n"
)


class HandshakeError(Exception):
    """The request is no WebSocket handshake, or offers no protocol that is served."""


def choose_protocol(exchange: Exchange, served: Collection[str]) -> str:
    """Return the first protocol that the client offers and that is served. A client that offers none speaks
    the protocol "". Raises HandshakeError."""
    if exchange.header(b"upgrade").lower() != "websocket" or not exchange.header(b"sec-websocket-key"):
        raise HandshakeError("you must specify a WebSocket upgrade")
    if exchange.header(b"sec-websocket-version") != _VERSION:
        raise HandshakeError(f"Sec-WebSocket-Version: only {_VERSION} is supported")
    offered = [one.strip() for one in exchange.header(b"sec-websocket-protocol").split(",") if one.strip()]
    for protocol in offered or [""]:
        if protocol in served:
            return protocol
    named = sorted(filter(None, served))
    raise HandshakeError(f"Sec-WebSocket-Protocol: found {offered}, expected one of {named}")


class WebSocket:
    """One connection after the handshake. Pings are answered as they come."""

    def __init__(self, exchange: Exchange, protocol: str) -> None:
        """Accept the handshake of a request, with a protocol that `choose_protocol` returned."""
        self._frames = Connection(ConnectionType.SERVER)
        self._messages: deque[tuple[bytes, int]] = deque()  # each with what it costs
        self._unread = 0  # what they cost together
        self._parts: list[bytes] = []  # of the message that is being received
        self._size = 0  # what these cost
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()
        token = generate_accept_token(exchange.header(b"sec-websocket-key").encode())
        chosen = b"Sec-WebSocket-Protocol: %b\r\n" % protocol.encode() if protocol else b""
        self._connection = exchange.upgrade(_HEAD % (token, chosen), self._receive)

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next message; None if the connection is closed, or after so many seconds without one.
        However many there are, others have their turn in between."""
        if self._messages:
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(seconds):
                while not self._messages and not self.is_closed:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return None
        if not self._messages:
            return None
        message, cost = self._messages.popleft()
        self._unread -= cost
        self._connection.pause(paused=self._unread > _MOST_UNREAD)
        return message

    async def send(self, message: bytes) -> None:
        """Send a binary message, unless the connection is closed; others have their turn."""
        if not self.is_closed:
            await self._connection.send(self._frames.send(BytesMessage(message)))
            await asyncio.sleep(0)

    def close(self, code: CloseReason = CloseReason.NORMAL_CLOSURE) -> None:
        """Close the connection."""
        if not self.is_closed:
            self._connection.transport.write(self._frames.send(CloseConnection(code)))
        self._end()
        self._connection.transport.close()

    def _end(self) -> None:
        self._closed.set()
        self._changed.set()

    def _receive(self, data: bytes) -> None:
        if not data or self._closed.is_set():
            self._end()
            return
        self._frames.receive_data(data)
        for event in self._frames.events():
            if self._closed.is_set():
                return
            if isinstance(event, BytesMessage):
                self._gather(bytes(event.data), is_complete=event.message_finished)
            elif isinstance(event, TextMessage):
                self.close(CloseReason.UNSUPPORTED_DATA)
            elif isinstance(event, Ping | CloseConnection):
                if not self._connection.transport.is_closing():
                    self._connection.transport.write(self._frames.send(event.response()))
                if isinstance(event, CloseConnection):
                    self._end()
                    self._connection.transport.close()
        transport = self._connection.transport
        if not transport.is_closing() and transport.get_write_buffer_size() > _MOST_UNSENT:
            transport.abort()

    def _gather(self, part: bytes, *, is_complete: bool) -> None:
        self._parts.append(part)
        self._size += len(part) + _PER_FRAME
        if self._size > LONGEST:
            self.close(CloseReason.MESSAGE_TOO_BIG)
        elif is_complete:
            self._messages.append((b"".join(self._parts), self._size))
            self._unread += self._size
            self._parts, self._size = [], 0
            self._changed.set()
            if self._unread > _MOST_UNREAD:
                self._connection.pause(paused=True)
