"""WebSocket connections under good and bad clients."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from mooring.serving.exchange import Exchange
from mooring.serving.messages import Answer
from mooring.serving.websocket import LONGEST, HandshakeError, WebSocket, choose_protocol
from tests.serving.kit import LOOPS
from tests.serving.websocket_kit import Client, served

ACCEPT = "BACScCJPNqyz+UBoqMH89VmURoA="
SLOW = b"slow"


class Echo:
    """Sends every message back; takes its time after one that says so."""

    async def answer(self, exchange: Exchange) -> None:
        try:
            protocol = choose_protocol(exchange, ("echo", "other"))
        except HandshakeError as error:
            await exchange.send(self.error(400, str(error)))
            return
        socket = WebSocket(exchange, protocol)
        while (message := await socket.receive()) is not None:
            if message == SLOW:
                await asyncio.sleep(0.2)
            elif message == b"bye":
                socket.close()
            else:
                await socket.send(message)

    def error(self, code: int, message: str) -> Answer:
        return Answer(code, message.encode(), "text/plain")


@pytest.mark.parametrize("loop", LOOPS)
def test_messages_in_both_directions(loop: str) -> None:
    async def scene(client: Client) -> None:
        code, head = await client.ask()
        assert code == 101
        assert f"Sec-WebSocket-Accept: {ACCEPT}" in head
        assert "Sec-WebSocket-Protocol: echo" in head
        part = BytesMessage(b"b", message_finished=False)
        client.send(BytesMessage(b"a"), Ping(b"p"), part, BytesMessage(b"c"))
        assert await client.receive() == Pong(b"p")
        assert await client.text() == b"a"
        assert await client.text() == b"bc"
        client.send(BytesMessage(b"bye"))
        closing = await client.receive()
        assert isinstance(closing, CloseConnection)
        assert closing.code == 1000

    served(Echo(), scene, loop)


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"Upgrade": "SPDY/3.1"}, "you must specify a WebSocket upgrade"),
        ({"Sec_WebSocket_Key": ""}, "you must specify a WebSocket upgrade"),
        ({"Sec_WebSocket_Version": "8"}, "only 13 is supported"),
        ({"Sec_WebSocket_Protocol": "new"}, "expected one of ['echo', 'other']"),
    ],
)
def test_other_handshakes_are_rejected(headers: dict[str, str], problem: str) -> None:
    async def scene(client: Client) -> None:
        code, head = await client.ask(**headers)
        length = int(head.lower().partition("content-length: ")[2].split()[0])
        message = (await client.reader.readexactly(length)).decode()
        assert code == 400
        assert problem in message

    served(Echo(), scene)


@pytest.mark.parametrize(
    ("event", "code"), [(TextMessage("a"), 1003), (BytesMessage(b"x" * (LONGEST + 1)), 1009)]
)
def test_what_is_not_a_message_closes_the_connection(event: Event, code: int) -> None:
    async def scene(client: Client) -> None:
        await client.ask()
        client.send(event)
        closing = await client.receive()
        assert isinstance(closing, CloseConnection)
        assert closing.code == code

    served(Echo(), scene)


def test_frames_that_are_not_masked_close_the_connection() -> None:
    async def scene(client: Client) -> None:
        await client.ask()
        client.writer.write(b"\x82\x01a")
        closing = await client.receive()
        assert isinstance(closing, CloseConnection)
        assert closing.code == 1002

    served(Echo(), scene)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_is_ahead_waits(loop: str) -> None:
    """What is not read yet is bounded, and nothing of it is lost."""

    async def scene(client: Client) -> None:
        await client.ask()
        client.send(BytesMessage(SLOW))
        for number in range(40):
            client.send(BytesMessage(b"%d" % number + b"x" * 100_000))
        for number in range(40):
            assert (await client.text()).startswith(b"%dx" % number)

    served(Echo(), scene, loop)


class Sink(Echo):
    """Receives messages, and notes how many in which turn of the loop."""

    def __init__(self) -> None:
        self.received = Counter[int]()
        self.ended = asyncio.Event()
        self._turn = 0

    async def answer(self, exchange: Exchange) -> None:
        socket = WebSocket(exchange, choose_protocol(exchange, ("echo",)))
        beat = asyncio.create_task(self._beat())
        while await socket.receive() is not None:
            self.received[self._turn] += 1
        beat.cancel()
        self.ended.set()

    async def _beat(self) -> None:
        while True:
            self._turn += 1
            await asyncio.sleep(0)


@pytest.mark.parametrize("loop", LOOPS)
def test_others_have_their_turn_between_messages(loop: str) -> None:
    """Nothing is lost, even if the client leaves at once."""
    sink = Sink()

    async def scene(client: Client) -> None:
        await client.ask()
        client.send(*(BytesMessage(b"a") for _ in range(3000)))
        client.writer.close()
        await sink.ended.wait()
        assert sink.received.total() == 3000
        assert max(sink.received.values()) <= 2

    served(sink, scene, loop)


class Raw(Echo):
    """Notes the pieces that come after an upgrade."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.ended = asyncio.Event()

    async def answer(self, exchange: Exchange) -> None:
        exchange.upgrade(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", self._receive)

    def _receive(self, data: bytes) -> None:
        self.sizes.append(len(data))
        if not data:
            self.ended.set()


@pytest.mark.parametrize("loop", LOOPS)
def test_what_comes_at_once_is_received_in_pieces(loop: str) -> None:
    raw = Raw()

    async def scene(client: Client) -> None:
        await client.ask()
        client.writer.write(b"x" * 1_000_000)
        client.writer.close()
        await raw.ended.wait()
        assert sum(raw.sizes) == 1_000_000
        assert max(raw.sizes) <= 2 * 1024

    served(raw, scene, loop)
