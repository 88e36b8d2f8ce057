"""The streams of a client that is connected to a container, over WebSockets or SPDY/3.1."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.verbs.request import Streams
from mooring.serving.exchange import Exchange
from mooring.serving.pipe import BytePipe
from mooring.serving.spdy.streams import SpdyConnection, SpdyStream
from mooring.serving.websocket import HandshakeError, WebSocket, choose_protocol

STDIN, STDOUT, STDERR, ERROR = 0, 1, 2, 3
_CLOSE: Final = 255
_FIRST: Final = "channel.k8s.io"
_STATUS_AS_TEXT: Final = frozenset(("", _FIRST, "v2.channel.k8s.io", "v3.channel.k8s.io"))
_WEBSOCKET_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io", _FIRST, "")
_SPDY_PROTOCOLS: Final = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", _FIRST)
_PATIENCE: Final = 30.0  # seconds in which a client opens its streams
_NAMES: Final = ("stdin", "stdout", "stderr", "error")
_HEAD: Final = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    b"X-Stream-Protocol-Version: %b\r\n\r\n"
)


class Message(NamedTuple):
    """What a client enters; `is_end` if nothing follows."""

    data: bytes
    is_end: bool = False


class Channels(Protocol):
    """The streams of one client. `reports_text` is whether it reads failures as text, and no success."""

    reports_text: bool

    @property
    def is_closed(self) -> bool: ...
    async def receive(self, seconds: float | None = None) -> Message | None:
        """Return what the client enters; None if it has left, or after so many seconds without anything."""
        ...

    async def send(self, channel: int, data: bytes) -> None: ...
    async def close(self) -> None: ...


async def open_channels(exchange: Exchange, streams: Streams) -> Channels:
    """Upgrade a connection. Raises ApiError."""
    if wants_spdy(exchange):
        channels = SpdyChannels(*accept_spdy(exchange, _SPDY_PROTOCOLS), streams)
        await channels.wait_until_open()
        return channels
    return WebSocketChannels(*accept_websocket(exchange, _WEBSOCKET_PROTOCOLS))


def wants_spdy(exchange: Exchange) -> bool:
    return "spdy/3.1" in exchange.header(b"upgrade").lower()


def accept_spdy(exchange: Exchange, served: Iterable[str]) -> tuple[BytePipe, str]:
    """Upgrade a connection to SPDY; return it with the protocol that its streams speak. Raises ApiError."""
    header = b"x-stream-protocol-version"
    values = [value.decode("latin-1") for name, value in exchange.headers if name == header]
    if not values:
        count = len(exchange.headers)
        what = f"header X-Stream-Protocol-Version does not exist in request with {count} headers"
        raise bad_request(f"unable to upgrade: {what}")
    offered = [one.strip() for value in values for one in value.split(",") if one.strip()]
    protocol = next((one for one in offered if one in served), None)
    if protocol is None:
        accepted = " ".join(served)
        what = f"client supports [{' '.join(offered)}], server accepts [{accepted}]"
        raise ApiError(403, "Forbidden", f"unable to upgrade: unable to negotiate protocol: {what}")
    return BytePipe(exchange, _HEAD % protocol.encode()), protocol


def accept_websocket(exchange: Exchange, served: Iterable[str]) -> tuple[WebSocket, str]:
    """Upgrade a connection to a WebSocket; return it with its protocol. Raises ApiError."""
    try:
        protocol = choose_protocol(exchange, tuple(served))
    except HandshakeError as error:
        raise bad_request(str(error)) from None
    return WebSocket(exchange, protocol), protocol


class WebSocketChannels:
    """Channels whose number is the first byte of each message."""

    def __init__(self, socket: WebSocket, protocol: str) -> None:
        self._socket = socket
        self.reports_text = protocol in _STATUS_AS_TEXT

    @property
    def is_closed(self) -> bool:
        return self._socket.is_closed

    async def receive(self, seconds: float | None = None) -> Message | None:
        message = await self._socket.receive(seconds)
        if message is None:
            return None
        if message[:1] != bytes([STDIN]):  # the end, or the size of the terminal
            return Message(b"", is_end=message[:2] == bytes([_CLOSE, STDIN]))
        return Message(message[1:])

    async def send(self, channel: int, data: bytes) -> None:
        await self._socket.send(bytes([channel]) + data)

    async def close(self) -> None:
        self._socket.close()
        await asyncio.sleep(0)


class SpdyChannels:
    """Channels that are streams of a connection, named by their header `streamtype`."""

    def __init__(self, pipe: BytePipe, protocol: str, streams: Streams) -> None:
        self.reports_text = protocol in _STATUS_AS_TEXT
        self._connection = SpdyConnection(pipe, self)
        self._expected = {name for name in _NAMES[:3] if getattr(streams, name)} | {"error"}
        if streams.tty:
            self._expected.discard("stderr")
        self._streams: dict[str, SpdyStream] = {}
        self._is_open = asyncio.Event()
        self._is_at_end = False  # of its input
        self._running = asyncio.create_task(self._run())

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed

    async def wait_until_open(self) -> None:
        """Wait for the streams that the client has announced. A client that does not open them is dropped."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._is_open.wait()
        except TimeoutError:
            await self.close()

    async def receive(self, seconds: float | None = None) -> Message | None:
        stdin = self._streams.get("stdin")
        if stdin is None or self._is_at_end:
            await asyncio.wait((self._running,), timeout=seconds)
            return None
        data = await stdin.receive(seconds)
        if data is None or (not data and self.is_closed):
            return None
        self._is_at_end = not data
        return Message(data, is_end=not data)

    async def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(_NAMES[channel])
        if stream is not None and data:
            await stream.send(data)

    async def close(self) -> None:
        for stream in self._streams.values():
            await stream.finish()
        await self._connection.close()
        await self._running

    # ---- as the handler of the connection

    def accepts(self, headers: Mapping[str, str]) -> bool:
        name = headers.get("streamtype", "")
        return name in ("resize", *_NAMES) and name not in self._streams

    def opened(self, stream: SpdyStream) -> None:
        name = stream.headers["streamtype"]
        self._streams[name] = stream
        stream.is_ignored = name != "stdin"  # sizes of the terminal
        if self._expected <= self._streams.keys():
            self._is_open.set()

    async def _run(self) -> None:
        await self._connection.run()
        self._is_open.set()
