"""A server on loopback that answers as a test says: well, badly or not at all."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """What came: the method, the path with its query, the headers in lower case and the body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int  # the first connection is 1

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Reply:
    """How a request is answered."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} Whatever\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
        await self.raw(head.encode() + body)

    async def json(self, status: int, body: Any, **headers: str) -> None:
        await self.send(status, json.dumps(body).encode(), Content_Type="application/json", **headers)

    async def begin_chunks(self) -> None:
        await self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        """An empty one ends the answer."""
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, kind: str, found: Any) -> None:
        await self.chunk(json.dumps({"type": kind, "object": found}).encode() + b"\n")

    def cut(self) -> None:
        """Close the connection without a word."""
        self._writer.transport.abort()


Answer = Callable[[Request, Reply], Awaitable[None]]


@dataclass
class Loopback:
    """A server that runs: what it was asked, and where it is."""

    answer: Answer
    port: int = 0
    secure: bool = False
    connections: int = 0
    requests: list[Request] = field(default_factory=list)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{'https' if self.secure else 'http'}://127.0.0.1:{self.port}"

    def cut_all(self) -> None:
        for writer in self.writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self.writers.add(writer)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while not writer.is_closing():
                    request = await _read(reader, number)
                    self.requests.append(request)
                    await self.answer(request, Reply(writer))
        finally:
            self.writers.discard(writer)
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader, number: int) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")[:-2]
    method, path, _ = first.split(" ")
    pairs = [line.partition(": ") for line in lines]
    headers: dict[str, str] = {}
    for name, _, value in pairs:
        known = headers.get(name.lower())
        headers[name.lower()] = f"{known}, {value}" if known else value
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body, number)


@asynccontextmanager
async def serving(
    answer: Answer, context: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[Loopback]:
    """Serve on loopback until the block ends."""
    served = Loopback(answer, secure=context is not None)
    server = await asyncio.start_server(served._serve, "127.0.0.1", port, ssl=context)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        served.cut_all()
        await asyncio.sleep(0)
        await asyncio.wait_for(server.wait_closed(), 5)
