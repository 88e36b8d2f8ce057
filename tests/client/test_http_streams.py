"""Answers that are read line by line: pieces, bounds, back-pressure, cuts."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.client.api_errors import Unreachable
from mooring.client.http import lines as lines_module
from mooring.client.http.client import HttpClient
from mooring.client.http.lines import LineConnection
from mooring.client.http.route import Route
from tests.client.api_kit import run
from tests.client.loopback import Loopback, Reply, Request, serving

FOREVER = float("inf")


def client_of(server: Loopback) -> HttpClient:
    return HttpClient(server.url, Route("127.0.0.1", server.port), 1)


async def open_stream(client: HttpClient, timeout: float = 20.0, duration: float = FOREVER) -> LineConnection:
    return await client.stream("/watch", b"Host: here\r\n", timeout, duration)


async def all_lines(client: HttpClient, stream: LineConnection) -> list[bytes]:
    found: list[bytes] = []
    while lines := await client.lines(stream, "/watch"):
        found += lines
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text("abc", min_size=1, max_size=9).map(str.encode), max_size=6),
    st.lists(st.integers(1, 7), min_size=1, max_size=5),
    st.booleans(),
)
def test_lines_are_the_same_however_they_are_cut_into_chunks(
    lines: list[bytes], sizes: list[int], last_ended: bool
) -> None:
    text = b"\n".join(lines) + (b"\n" if last_ended and lines else b"")

    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        at, turn = 0, 0
        while at < len(text):
            size = sizes[turn % len(sizes)]
            await reply.chunk(text[at : at + size])
            at, turn = at + size, turn + 1
        await reply.chunk(b"")

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            assert await all_lines(client, await open_stream(client)) == lines
            await client.close()

    run(main())


def test_a_line_is_there_as_soon_as_it_is_complete() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        for number in range(3):
            await reply.chunk(b"line ")
            await reply.chunk(b"%d\n" % number)
            await seen.get()
        await reply.chunk(b"")

    seen: asyncio.Queue[None] = asyncio.Queue()

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            stream = await open_stream(client)
            for number in range(3):
                assert await client.lines(stream, "/watch") == [b"line %d" % number]
                seen.put_nowait(None)
            assert await client.lines(stream, "/watch") == []
            await client.close()

    run(main())


def test_streams_do_not_count_against_the_limit_of_requests() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if request.path == "/watch":
            await reply.begin_chunks()
        else:
            await reply.send(200, b"ok")

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)  # with a limit of one
            streams = [await open_stream(client) for _ in range(3)]
            assert (await client.request("GET", "/x", b"", b"", 5)).body == b"ok"
            for stream in streams:
                client.end(stream)
            await client.close()

    run(main())


def test_a_reader_that_is_busy_makes_the_server_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "_PAUSE_AT", 100_000)
    line = b"x" * 9_999
    count = 4_000  # forty megabytes: more than all buffers of loopback hold
    sent = 0

    async def answer(request: Request, reply: Reply) -> None:
        nonlocal sent
        await reply.begin_chunks()
        for _ in range(count):
            await reply.chunk(line + b"\n")
            sent += 1
        await reply.chunk(b"")

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            stream = await open_stream(client)
            before = -1
            while before != sent:  # until nothing moves any more
                before = sent
                await asyncio.sleep(0.1)
            assert sent < count
            assert await all_lines(client, stream) == [line] * count
            await client.close()

    run(main())


def test_a_line_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 100_000)

    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await reply.chunk(b"fine\n")
        for _ in range(200):
            await reply.chunk(b"y" * 1000)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            stream = await open_stream(client)
            with pytest.raises(Unreachable, match="watch event exceeds 100000 bytes"):
                await all_lines(client, stream)
            await client.close()

    run(main())


def test_a_cut_is_told_after_the_lines_before_it() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await reply.chunk(b"one\ntwo\nhal")
        await asyncio.sleep(0.05)
        reply.cut()

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            stream = await open_stream(client)
            assert await client.lines(stream, "/watch") == [b"one", b"two"]
            with pytest.raises(Unreachable, match="closed in the middle of the answer") as caught:
                await client.lines(stream, "/watch")
            assert caught.value.request == "GET /watch"
            await client.close()

    run(main())


def test_an_answer_other_than_200_is_read_whole() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.send(410, b"gone\nfor good\n")

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            stream = await open_stream(client)
            assert not stream.streaming
            assert (stream.response().status, stream.response().body) == (410, b"gone\nfor good\n")
            await client.close()

    run(main())


def test_an_answer_has_to_begin_and_to_end_in_time() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if request.connection > 1:
            await reply.begin_chunks()
        await asyncio.sleep(20)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            with pytest.raises(Unreachable, match="timed out"):
                await open_stream(client, timeout=0.1)
            stream = await open_stream(client, duration=0.1)
            with pytest.raises(Unreachable, match="timed out while reading the response"):
                await client.lines(stream, "/watch")
            await client.close()

    run(main())


def test_ending_a_stream_closes_its_connection() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await asyncio.sleep(20)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            stream = await open_stream(client)
            (writer,) = server.writers
            client.end(stream)
            await stream.lost
            while not writer.transport.is_closing():  # the server sees it, too
                writer.write(b"1\r\n\n\r\n")
                await asyncio.sleep(0.01)
            await client.close()

    run(main())


def test_closing_the_client_ends_its_streams() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await asyncio.sleep(20)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            stream = await open_stream(client)
            waiting = asyncio.ensure_future(client.lines(stream, "/watch"))
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(Unreachable, match="closed by the client"):
                await waiting
            with pytest.raises(Unreachable, match="closed by the client"):
                await open_stream(client)

    run(main())
