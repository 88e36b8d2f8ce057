"""Clients that send requests without waiting for the answers to those before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mooring.serving.connection import Connection
from mooring.serving.limits import Limits
from mooring.serving.messages import Answer, Request
from tests.serving.kit import HELLO, LOOPS, TOKEN, Served, run, serving

HEAD = f"HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
REQUEST = f"GET /hello {HEAD}".encode()
MANY = 3_000
MOST_HELD = 16 * 1024 // len(REQUEST) + 1
"""Requests in a piece of what is received."""


@pytest.mark.parametrize("loop", LOOPS)
def test_few_requests_are_held_at_a_time(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    complete = Connection.on_response_complete

    def on_response_complete(self: Connection) -> None:
        held.append(len(self.pipeline))
        complete(self)

    monkeypatch.setattr(Connection, "on_response_complete", on_response_complete)

    async def main() -> None:
        async with serving(HELLO, limits=Limits()) as it:
            it.reviewer.allow("/hello")
            reader, writer = await it.connect()
            writer.write(REQUEST * MANY)
            for _ in range(MANY):
                await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"GET /hello []")
            writer.transport.abort()

    run(main(), loop)
    assert len(held) == MANY
    assert max(held) <= MOST_HELD


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stream_ends_with_the_connection_though_more_requests_were_sent(loop: str) -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x"
                    await asyncio.sleep(0.01)
            finally:
                closed.set()

        async def stream(request: Request) -> Answer:
            return Answer(stream=endless())

        async with serving({"/long": stream, **HELLO}, limits=Limits()) as it:
            it.reviewer.allow("/long", "/hello")
            reader, writer = await it.connect()
            writer.write(f"GET /long {HEAD}".encode() + REQUEST)
            await reader.readuntil(b"x\r\n")
            await wait_for_pipeline(it)
            writer.transport.abort()
            await closed.wait()

    run(main(), loop)


async def wait_for_pipeline(it: Served) -> None:
    while not any(connection.pipeline for connection in it.server.connections):
        await asyncio.sleep(0.01)
