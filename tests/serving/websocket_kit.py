"""One client of a WebSocket, and a server for it on loopback."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, Event

from mooring.serving.exchange import Service
from mooring.serving.limits import Limits
from mooring.serving.listening import listen
from mooring.serving.server import FixedIdentity, HttpServer
from tests.serving.kit import run

KEY = base64.b64encode(b"0123456789abcdef").decode()


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


def served(service: Service, scene: Callable[[Client], Awaitable[None]], loop: str = "asyncio") -> None:
    """Play a scene with one client of a service."""

    async def main() -> None:
        listener = listen("127.0.0.1", 0)
        server = HttpServer(service, listener, FixedIdentity(None), Limits(sweep_seconds=0.05))
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
