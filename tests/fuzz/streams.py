"""Targets: what clients send over connections to containers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from mooring.sandbox.network.messages import Query, Reply, Speech
from mooring.sandbox.programs.conversations import converse
from mooring.serving.spdy.frames import (
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    Ping,
    RstStream,
    Settings,
    SynStream,
    WindowUpdate,
)
from mooring.serving.spdy.headers import SpdyError
from mooring.serving.spdy.streams import MOST_STREAMS, SpdyConnection, SpdyStream
from tests.fuzz.clients import loop
from tests.fuzz.mutation import mutate_bytes, mutate_text
from tests.fuzz.target import target

_PAIR: list[Frame] = [
    SynStream(1, {"streamtype": "error", "port": "80", "requestid": "0"}),
    SynStream(3, {"streamtype": "data", "port": "80", "requestid": "0"}),
]
_TALKS: list[list[Frame]] = [
    [*_PAIR, Data(1, b"", is_last=True), Data(3, b"GET / HTTP/1.1\r\n\r\n"), GoAway(0)],
    [*_PAIR, WindowUpdate(3, 100), Settings({7: 5}), Data(3, b"abc"), RstStream(3, 5)],
    [Ping(1), Ping(2), Settings({}), WindowUpdate(0, 2**31 - 1)],
]
_SEEDS = [b"".join(map(FrameWriter().write, frames)) for frames in _TALKS]


class _Client:
    """Sends bytes in pieces, reads everything, and has each stream echoed."""

    def __init__(self, data: bytes) -> None:
        half = 1 + len(data) // 2
        self._pieces = [piece for piece in (data[:half], data[half:]) if piece]
        self._reader = FrameReader()
        self.is_closed = False
        self.frames: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def receive(self, seconds: float | None = None) -> bytes | None:
        return self._pieces.pop(0) if self._pieces and not self.is_closed else None

    async def send(self, data: bytes) -> None:
        self.frames += [type(frame).__name__ for frame in self._reader.read(data)]

    def close(self) -> None:
        self.is_closed = True

    def accepts(self, headers: Mapping[str, str]) -> bool:
        return "port" in headers

    def opened(self, stream: SpdyStream) -> None:
        self.tasks.append(asyncio.ensure_future(_echo(stream)))


async def _echo(stream: SpdyStream) -> None:
    while data := await stream.receive():
        await stream.send(data)
    await stream.finish()


@target("spdy", mutate_bytes, _SEEDS)
def serve_streams(data: bytes) -> object:
    return loop.run_until_complete(_serve(data))


async def _serve(data: bytes) -> list[str]:
    client = _Client(data)
    await SpdyConnection(client, client).run()
    await asyncio.gather(*client.tasks)
    assert len(client.tasks) <= MOST_STREAMS + len(data)
    return sorted(set(client.frames))


@target("spdy-frames", mutate_bytes, _SEEDS, errors=(SpdyError,))
def read_frames(data: bytes) -> object:
    frames = list(FrameReader().read(data))
    again = list(FrameReader().read(b"".join(map(FrameWriter().write, frames))))
    assert [frame for frame in again if frame] == [frame for frame in frames if frame]
    return [type(frame).__name__ for frame in frames]


def _answer(query: Query) -> Reply:
    return Reply(0) if query.path == "/close" else Reply(200, query.body, {"content-type": "text/plain"})


def _texts(speech: Speech) -> Callable[[bytes], object]:
    def run(data: bytes) -> object:
        conversation = converse(_answer, speech)
        half = 1 + len(data) // 2
        parts = [conversation.receive(data[:half]), conversation.receive(data[half:]), conversation.end()]
        sent = b"".join(piece for answers in parts for piece in answers)
        assert conversation.is_over
        return sent.partition(b"\r\n")[0].decode("latin-1")

    return run


_REQUESTS = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3,
    "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    "POST /close HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nabc",
    "\x00\x01 no HTTP",
]
_WORDS = ["\r\n", "HTTP/1.1", "Connection: close\r\n", "Content-Length: 5\r\n", "X" * 70_000, "0\r\n\r\n"]
target("forwarded-http", mutate_text, _REQUESTS, _WORDS)(_texts(Speech.HTTP))
target("forwarded-text", mutate_text, _REQUESTS, _WORDS)(_texts(Speech.ANY))
