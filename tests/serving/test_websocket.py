"""WebSocket connections under good and bad clients."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from mooring.serving.exchange import Exchange
from mooring.serving.limits import Limits
from mooring.serving.listening import listen
from mooring.serving.messages import Answer
from mooring.serving.server import FixedIdentity, HttpServer
from mooring.serving.websocket import LONGEST, HandshakeError, WebSocket, choose_protocol
from tests.serving.kit import LOOPS, run

KEY = base64.b64encode(b"0123456789abcdef").decode()
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


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._frames = Connection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        self.writer = writer

    async def ask(self, **headers: str) -> tuple[int, str]:
        """Send a handshake; return the status code and the head of the answer."""
        sent = {
            "Host": "a",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": KEY,
            "Sec-WebSocket-Protocol": "new, echo",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
        self.writer.write(f"GET / HTTP/1.1\r\n{lines}\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        return int(head.split()[1]), head

    def send(self, *events: Event) -> None:
        self.writer.write(b"".join(map(self._frames.send, events)))

    async def receive(self) -> Event:
        while not self._events:
            data = await self.reader.read(65536)
            assert data, "the connection is closed"
            self._frames.receive_data(data)
            self._events = list(self._frames.events())
        return self._events.pop(0)

    async def text(self) -> bytes:
        """Return a whole message."""
        whole = b""
        while True:
            event = await self.receive()
            assert isinstance(event, BytesMessage)
            whole += event.data
            if event.message_finished:
                return whole


def served(scene: Callable[[Client], Awaitable[None]], loop: str) -> None:
    async def main() -> None:
        listener = listen("127.0.0.1", 0)
        server = HttpServer(Echo(), listener, FixedIdentity(None), Limits(sweep_seconds=0.05))
        task = asyncio.create_task(server.run())
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            await asyncio.wait_for(scene(Client(reader, writer)), 30)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(main(), loop)


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

    served(scene, loop)


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

    served(scene, "asyncio")


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

    served(scene, "asyncio")


def test_frames_that_are_not_masked_close_the_connection() -> None:
    async def scene(client: Client) -> None:
        await client.ask()
        client.writer.write(b"\x82\x01a")
        closing = await client.receive()
        assert isinstance(closing, CloseConnection)
        assert closing.code == 1002

    served(scene, "asyncio")


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

    served(scene, loop)
