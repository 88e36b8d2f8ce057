"""A client of streams as kubelets serve them: SPDY/3.1, tunnelled or not, and WebSockets with channels."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import yaml
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage

from mooring.serving.spdy.frames import (
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    RstStream,
    SynStream,
)

SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode(),
}
PODS = "/api/v1/namespaces/default/pods"


class RefusedError(Exception):
    """The connection was not upgraded."""

    def __init__(self, code: int, body: str) -> None:
        super().__init__(code, body)
        self.code = code
        self.body = body


class Upgraded:
    """One connection to an API server, used in `async with`: raw bytes, or messages of a WebSocket."""

    def __init__(self, kubeconfig: str, method: str, path: str, headers: dict[str, str]) -> None:
        config: Any = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._url = urlsplit(cluster["server"])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        lines = {"Host": "a", "Authorization": f"Bearer {user['token']}", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._request = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode()
        self._is_websocket = headers.get("Upgrade") == "websocket"
        self._frames = Connection(ConnectionType.CLIENT)
        self.head = ""

    async def __aenter__(self) -> Upgraded:
        host, port = self._url.hostname, self._url.port
        self._reader, self._writer = await asyncio.open_connection(host, port, ssl=self._context)
        self._writer.write(self._request)
        self.head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        code = int(self.head.split()[1])
        if code != 101:
            body = await self._reader.read(65536)
            await self._close()
            raise RefusedError(code, body.decode())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()

    def send(self, data: bytes) -> None:
        self._writer.write(self._frames.send(BytesMessage(data)) if self._is_websocket else data)

    async def receive(self) -> list[bytes]:
        """Return what has come; nothing at the end."""
        while data := await self._reader.read(65536):
            if not self._is_websocket:
                return [data]
            self._frames.receive_data(data)
            parts = [bytes(one.data) for one in self._frames.events() if isinstance(one, BytesMessage)]
            if parts:
                return parts
        return []


async def refusal(kubeconfig: str, method: str, path: str, headers: dict[str, str]) -> RefusedError:
    """Return why a connection is not upgraded."""
    try:
        async with Upgraded(kubeconfig, method, path, headers):
            raise AssertionError("the connection was upgraded")
    except RefusedError as refused:
        return refused


class Spdy:
    """What is sent and received over SPDY."""

    def __init__(self, connection: Upgraded) -> None:
        self._connection = connection
        self._reader, self._writer = FrameReader(), FrameWriter()
        self.data: dict[int, bytes] = defaultdict(bytes)
        self.ended: set[int] = set()
        self.was_reset: set[int] = set()
        self.is_gone = False

    def say(self, *frames: Frame) -> None:
        self._connection.send(b"".join(map(self._writer.write, frames)))

    def open(self, number: int, **headers: str) -> None:
        self.say(SynStream(number, headers))

    def open_port(self, number: int, port: int) -> int:
        """Open a pair of streams; return the number of the one for data."""
        self.open(number, streamtype="error", port=str(port), requestid=str(number))
        self.say(Data(number, b"", is_last=True))
        self.open(number + 2, streamtype="data", port=str(port), requestid=str(number))
        return number + 2

    async def receive_until(self, *numbers: int) -> None:
        """Receive until streams have ended."""
        while not self.ended.issuperset(numbers):
            parts = await self._connection.receive()
            assert parts, "the connection is closed"
            for frame in (frame for part in parts for frame in self._reader.read(part)):
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        match frame:
            case Data(number, data, is_last):
                self.data[number] += data
                if is_last:
                    self.ended.add(number)
            case RstStream(number):
                self.was_reset.add(number)
                self.ended.add(number)
            case GoAway():
                self.is_gone = True
