"""Streams of SPDY connections, and what one client may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from mooring.serving.spdy import streams
from mooring.serving.spdy.frames import (
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
from mooring.serving.spdy.streams import MOST_STREAMS, MOST_UNREAD, SpdyConnection, SpdyStream
from tests.serving.kit import run


class Client:
    """A client without a network: the other end of a pipe. It may be slow to read."""

    def __init__(self) -> None:
        self.opened: list[SpdyStream] = []
        self.is_closed = False
        self.answers: list[Frame] = []
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._writer, self._reader = FrameWriter(), FrameReader()
        self.is_drained = asyncio.Event()
        self.is_drained.set()

    def say(self, *frames: Frame) -> None:
        self._sent.put_nowait(b"".join(map(self._writer.write, frames)))

    def leave(self) -> None:
        self._sent.put_nowait(None)

    async def turn(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def data(self, number: int) -> bytes:
        return b"".join(f.data for f in self.answers if isinstance(f, Data) and f.stream == number)

    # ---- as a pipe

    async def receive(self, seconds: float | None = None) -> bytes | None:
        return await self._sent.get()

    async def send(self, data: bytes) -> None:
        await self.is_drained.wait()
        self.answers += self._reader.read(data)

    def close(self) -> None:
        self.is_closed = True
        self.leave()


class Handler:
    """Accepts the streams of a client, except those with a header `no`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def accepts(self, headers: Mapping[str, str]) -> bool:
        return "no" not in headers

    def opened(self, stream: SpdyStream) -> None:
        self._client.opened.append(stream)


def connected(scene: Callable[[Client, SpdyConnection], Awaitable[None]]) -> None:
    async def main() -> None:
        client = Client()
        connection = SpdyConnection(client, Handler(client))
        running = asyncio.create_task(connection.run())
        await scene(client, connection)
        client.leave()
        await running

    run(main())


def test_a_stream_goes_in_both_directions_until_both_have_finished() -> None:
    async def scene(client: Client, connection: SpdyConnection) -> None:
        client.say(SynStream(1, {"a": "b"}), Data(1, b"in"))
        await client.turn()
        (stream,) = client.opened
        assert (stream.headers, await stream.receive()) == ({"a": "b"}, b"in")
        assert await stream.receive(0.001) is None
        client.say(Data(1, b"", is_last=True))
        assert await stream.receive() == b""
        await stream.send(b"out")
        await stream.finish()
        await stream.send(b"ignored")
        assert client.answers == [SynReply(1, {}), Data(1, b"out"), Data(1, b"", is_last=True)]
        assert stream.is_over

    connected(scene)


def test_pings_are_answered_and_streams_may_be_refused() -> None:
    async def scene(client: Client, connection: SpdyConnection) -> None:
        client.say(Ping(3), Ping(4), SynStream(1, {"no": ""}), Data(9, b"to no stream"))
        await client.turn()
        assert client.answers == [Ping(3), RstStream(1, REFUSED_STREAM)]

    connected(scene)


@pytest.mark.parametrize("number", [2, 1])
def test_numbers_of_streams_are_odd_and_increase(number: int) -> None:
    async def scene(client: Client, connection: SpdyConnection) -> None:
        client.say(SynStream(1, {}), SynStream(number, {}))
        await client.turn()
        assert client.answers[-1] == GoAway(1, 1)
        assert client.is_closed
        assert await client.opened[0].receive() == b""

    connected(scene)


def test_a_flood_of_streams_is_refused() -> None:
    async def scene(client: Client, connection: SpdyConnection) -> None:
        client.say(*(SynStream(2 * n + 1, {}) for n in range(MOST_STREAMS + 1)))
        await client.turn()
        assert len(client.opened) == MOST_STREAMS
        assert RstStream(2 * MOST_STREAMS + 1, REFUSED_STREAM) in client.answers
        await client.opened[0].reset(1)
        client.say(SynStream(999, {}))
        await client.turn()
        assert SynReply(999, {}) in client.answers

    connected(scene)


def test_others_have_their_turn_between_frames_that_come_together() -> None:
    async def scene(client: Client, connection: SpdyConnection) -> None:
        client.say(*[Ping(1)] * 1000)
        turns = 0
        while len(client.answers) < 1000:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 10

    connected(scene)


def test_nothing_more_is_read_while_much_is_unread() -> None:
    async def scene(client: Client, connection: SpdyConnection) -> None:
        piece = b"x" * 65536
        client.say(SynStream(1, {}))
        for _ in range(100):
            client.say(Data(1, piece))
        await client.turn()
        (stream,) = client.opened
        assert MOST_UNREAD < connection._unread < MOST_UNREAD + 2 * len(piece)
        total = 0
        while total < 100 * len(piece):
            total += len(await stream.receive() or b"")
        assert connection._unread == 0
        allowed = sum(f.size for f in client.answers if isinstance(f, WindowUpdate) and f.stream == 1)
        assert total - 65536 <= allowed <= total

    connected(scene)


def test_a_client_for_which_nothing_can_be_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE", 0.01)

    async def scene(client: Client, connection: SpdyConnection) -> None:
        client.say(SynStream(1, {}), Data(1, b"x" * (MOST_UNREAD + 1)))
        while not client.is_closed:
            await asyncio.sleep(0.005)

    connected(scene)


def test_windows_are_respected_once_a_client_updates_them() -> None:
    async def scene(client: Client, connection: SpdyConnection) -> None:
        client.say(Settings({7: 10}), WindowUpdate(0, 2**31 - 1), SynStream(1, {}))
        await client.turn()
        sending = asyncio.create_task(client.opened[0].send(b"x" * 25))
        await client.turn()
        assert client.data(1) == b"x" * 10
        client.say(WindowUpdate(1, 5))
        await client.turn()
        assert client.data(1) == b"x" * 15
        client.say(Settings({7: 30}))
        await sending
        assert client.data(1) == b"x" * 25
        more = asyncio.create_task(client.opened[0].send(b"x" * 25))
        await client.turn()
        client.say(RstStream(1, 5))
        await more  # ends with its stream

    connected(scene)


def test_clients_in_go_need_no_windows() -> None:
    async def scene(client: Client, connection: SpdyConnection) -> None:
        client.say(SynStream(1, {}))
        await client.turn()
        await client.opened[0].send(b"x" * 1_000_000)
        assert len(client.data(1)) == 1_000_000

    connected(scene)


def test_data_waits_for_a_client_that_does_not_read() -> None:
    async def scene(client: Client, connection: SpdyConnection) -> None:
        client.say(SynStream(1, {}))
        await client.turn()
        client.is_drained.clear()
        sending = asyncio.create_task(client.opened[0].send(b"x" * 1_000_000))
        await client.turn()
        assert not client.data(1)
        client.is_drained.set()
        await sending

    connected(scene)
