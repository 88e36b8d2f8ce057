"""The streams of one SPDY connection, with bounds on what is kept of them.

Clients of Kubernetes respect no window and update none, so what they send is bounded by reading no more from
their connection, and what is sent to them by how fast they read. A client that updates windows gets no more
than they allow.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

from mooring.serving.spdy.frames import (
    INITIAL_WINDOW,
    REFUSED_STREAM,
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    Ping,
    RstStream,
    Settings,
    SynReply,
    SynStream,
    WindowUpdate,
)
from mooring.serving.spdy.headers import SpdyError

MOST_STREAMS: Final = 200
MOST_UNREAD: Final = 256 * 1024  # bytes of all streams after which nothing more is read from the client
PATIENCE: Final = 30.0  # seconds until a client is dropped for which nothing can be read
_WINDOW: Final = 64 * 1024
_LARGEST_WINDOW: Final = 2**31 - 1
_PIECE: Final = 16 * 1024  # bytes of a data frame
_FRAMES: Final = 64  # that are handled in one turn of the loop
_PER_FRAME: Final = 64  # bytes that a frame costs in addition
_PROTOCOL_ERROR: Final = 1


class Pipe(Protocol):
    """Bytes in both directions, in pieces of any size."""

    @property
    def is_closed(self) -> bool: ...
    async def receive(self, seconds: float | None = None) -> bytes | None: ...
    async def send(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class StreamHandler(Protocol):
    """What is done with the streams of a client."""

    def accepts(self, headers: Mapping[str, str]) -> bool:
        """Whether the client may open a stream."""
        ...

    def opened(self, stream: SpdyStream) -> None: ...


class SpdyStream:
    """One stream that the client has opened."""

    def __init__(self, connection: SpdyConnection, opened: SynStream, window: int) -> None:
        self.number = opened.stream
        self.headers = opened.headers
        self.window = window  # bytes that may be sent
        self.is_finished = False  # nothing more is sent
        self.is_ignored = False  # nothing of what is received is kept
        self._connection = connection
        self._parts: deque[bytes] = deque()
        self._is_at_end = opened.is_last  # nothing more is received
        self._changed = asyncio.Event()
        self._consumed = 0  # since the client was last allowed to send more

    @property
    def is_over(self) -> bool:
        return self.is_finished and self._is_at_end

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return what the client has sent: no bytes at the end, None after so many seconds without any.
        However much there is, others have their turn in between."""
        if self._parts:
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(seconds):
                while not self._parts and not self._is_at_end:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return None
        if not self._parts:
            return b""
        part = self._parts.popleft()
        self._connection.consume(len(part) + _PER_FRAME)
        self._consumed += len(part)
        if self._consumed >= _WINDOW // 2 and not self._is_at_end:
            size, self._consumed = self._consumed, 0
            await self._connection.allow(self, size)
        return part

    async def send(self, data: bytes) -> None:
        """Send data as the client reads it; without effect once the stream is over."""
        for start in range(0, len(data), _PIECE):
            rest = memoryview(data)[start : start + _PIECE]
            while rest and not self.is_finished:
                size = await self._connection.reserve(self, len(rest))
                await self._connection.send(Data(self.number, bytes(rest[:size])))
                rest = rest[size:]

    async def finish(self) -> None:
        """Send nothing more."""
        if not self.is_finished:
            self.is_finished = True
            await self._connection.send(Data(self.number, b"", is_last=True))
            self._connection.forget(self)

    async def reset(self, status: int) -> None:
        """End the stream in both directions."""
        if not self.is_over:
            self.end()
            await self._connection.send(RstStream(self.number, status))

    def take(self, data: bytes, *, is_last: bool) -> None:
        """Keep what the client has sent."""
        if data and not (self._is_at_end or self.is_ignored):
            self._parts.append(data)
            self._connection.keep(len(data) + _PER_FRAME)
        self._is_at_end |= is_last
        self._changed.set()
        self._connection.forget(self)

    def end(self) -> None:
        """End the stream without notice, and forget what it has received."""
        self._connection.consume(sum(len(part) + _PER_FRAME for part in self._parts))
        self._parts.clear()
        self.is_finished = True
        self.take(b"", is_last=True)


class SpdyConnection:
    """One client, and the streams that it opens."""

    def __init__(self, pipe: Pipe, handler: StreamHandler) -> None:
        self._pipe = pipe
        self._handler = handler
        self._reader = FrameReader()
        self._writer = FrameWriter()
        self._streams: dict[int, SpdyStream] = {}
        self._last_stream = 0
        self._unread = 0
        self._has_room = asyncio.Event()
        self._has_windows = False
        self._initial_window = self._window = _WINDOW
        self._window_changed = asyncio.Event()
        self._consumed = 0  # of all streams, since the client was last allowed to send more

    @property
    def is_closed(self) -> bool:
        return self._pipe.is_closed

    async def run(self) -> None:
        """Handle what the client sends until one side closes the connection."""
        try:
            while (data := await self._pipe.receive()) is not None:
                for start in range(0, len(data), _PIECE):
                    for number, frame in enumerate(self._reader.read(data[start : start + _PIECE]), 1):
                        await self._handle(frame)
                        if number % _FRAMES == 0:  # thousands fit into a piece
                            await asyncio.sleep(0)
                    await asyncio.sleep(0)
                    await self._wait_for_room()
        except SpdyError:
            await self.send(GoAway(self._last_stream, _PROTOCOL_ERROR))
        except TimeoutError:
            pass
        finally:
            self._pipe.close()
            self._end_streams()

    async def close(self) -> None:
        """Close the connection once everything is sent."""
        await self.send(GoAway(self._last_stream))
        self._pipe.close()
        self._end_streams()

    async def _wait_for_room(self) -> None:
        """Read on only when enough was consumed. Raises TimeoutError."""
        while self._unread > MOST_UNREAD:
            self._has_room.clear()
            async with asyncio.timeout(PATIENCE):
                await self._has_room.wait()

    # ---- for streams

    async def send(self, frame: Frame) -> None:
        if not self.is_closed:
            await self._pipe.send(self._writer.write(frame))

    async def reserve(self, stream: SpdyStream, size: int) -> int:
        """Return how many of so many bytes may be sent, once there are some."""
        while self._has_windows and not stream.is_finished and min(stream.window, self._window) <= 0:
            self._window_changed.clear()
            await self._window_changed.wait()
        if self._has_windows:
            size = max(min(size, stream.window, self._window), 0)
        stream.window -= size
        self._window -= size
        return size

    async def allow(self, stream: SpdyStream, size: int) -> None:
        """Allow the client to send more."""
        await self.send(WindowUpdate(stream.number, size))
        self._consumed += size
        if self._consumed >= _WINDOW // 2:
            size, self._consumed = self._consumed, 0
            await self.send(WindowUpdate(0, size))

    def keep(self, size: int) -> None:
        self._unread += size

    def consume(self, size: int) -> None:
        self._unread -= size
        self._has_room.set()

    def forget(self, stream: SpdyStream) -> None:
        """Remove a stream that is over."""
        if stream.is_over:
            self._streams.pop(stream.number, None)
            self._window_changed.set()

    # ---- frames

    async def _handle(self, frame: Frame) -> None:
        match frame:
            case SynStream():
                await self._open(frame)
            case Data(number, data, is_last):
                if (stream := self._streams.get(number)) is not None:
                    stream.take(data, is_last=is_last)
            case RstStream(number):
                if (stream := self._streams.get(number)) is not None:
                    stream.end()
            case Ping(id) if id % 2:
                await self.send(frame)
            case Settings(values):
                self._set_window(values)
            case WindowUpdate(number, size):
                self._update_window(number, size)
            case GoAway():
                self._pipe.close()

    async def _open(self, frame: SynStream) -> None:
        if frame.stream % 2 == 0 or frame.stream <= self._last_stream:
            raise SpdyError("invalid number of a stream")
        self._last_stream = frame.stream
        if len(self._streams) >= MOST_STREAMS or not self._handler.accepts(frame.headers):
            await self.send(RstStream(frame.stream, REFUSED_STREAM))
            return
        await self.send(SynReply(frame.stream, {}))  # clients ignore what they get before it
        stream = self._streams[frame.stream] = SpdyStream(self, frame, self._initial_window)
        self._handler.opened(stream)

    def _set_window(self, values: Mapping[int, int]) -> None:
        size = values.get(INITIAL_WINDOW)
        if size is None:
            return
        size = min(size, _LARGEST_WINDOW)
        for stream in self._streams.values():
            stream.window += size - self._initial_window
        self._initial_window = size
        self._have_windows()

    def _update_window(self, number: int, size: int) -> None:
        stream = self._streams.get(number)
        if number == 0:
            self._window = min(self._window + size, _LARGEST_WINDOW)
        elif stream is not None:
            stream.window = min(stream.window + size, _LARGEST_WINDOW)
        self._have_windows()

    def _have_windows(self) -> None:
        self._has_windows = True
        self._window_changed.set()

    def _end_streams(self) -> None:
        for stream in tuple(self._streams.values()):
            stream.end()
