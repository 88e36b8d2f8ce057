"""Requests over kept connections: reuse, bounds, deadlines, and what happens when a connection dies."""

from __future__ import annotations

import asyncio

import pytest

from mooring.client.api_errors import Unreachable
from mooring.client.http.client import HttpClient
from mooring.client.http.connection import LARGEST_FRAMING, LARGEST_HEAD, Response
from mooring.client.http.route import Route
from tests.client.api_kit import run
from tests.client.loopback import Loopback, Reply, Request, serving


async def ok(request: Request, reply: Reply) -> None:
    await reply.send(200, request.body or b"ok")


def client_of(server: Loopback, limit: int = 4) -> HttpClient:
    return HttpClient(server.url, Route("127.0.0.1", server.port), limit)


async def ask(client: HttpClient, method: str = "GET", body: bytes = b"", timeout: float = 20.0) -> Response:
    return await client.request(method, "/path?x=1", b"Host: here\r\nX-Mine: 1\r\n", body, timeout)


def test_a_request_says_what_was_given_and_the_answer_comes_back_whole() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.send(418, request.body.upper(), Retry_After="7")

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            response = await ask(client, "POST", b"body")
            assert (response.status, response.body) == (418, b"BODY")
            assert (response.header(b"retry-after"), response.header(b"etag")) == ("7", "")
            (request,) = server.requests
            assert (request.method, request.path, request.body) == ("POST", "/path?x=1", b"body")
            assert request.headers == {"host": "here", "x-mine": "1", "content-length": "4"}
            await client.close()

    run(main())


def test_requests_one_after_the_other_share_a_connection() -> None:
    async def main() -> None:
        async with serving(ok) as server:
            client = client_of(server)
            for _ in range(5):
                await ask(client)
            assert server.connections == 1
            await client.close()

    run(main())


def test_an_answer_in_pieces_of_any_size_is_the_same() -> None:
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n"

    async def answer(request: Request, reply: Reply) -> None:
        size = len(server_sizes)
        server_sizes.append(size)
        for start in range(0, len(whole), size + 1):
            await reply.raw(whole[start : start + size + 1])
            await asyncio.sleep(0)

    server_sizes: list[int] = []

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            for _ in range(12):
                assert (await ask(client)).body == b"abcdef"
            assert server.connections == 1
            await client.close()

    run(main())


def test_no_more_connections_than_the_limit_and_first_come_first_served() -> None:
    release = asyncio.Event()

    async def answer(request: Request, reply: Reply) -> None:
        if len(server_of[0].requests) <= 2:
            await release.wait()
        await reply.send(200, request.body)

    server_of: list[Loopback] = []

    async def main() -> None:
        async with serving(answer) as server:
            server_of.append(server)
            client = client_of(server, limit=2)
            asked = [asyncio.ensure_future(ask(client, "POST", b"%d" % number)) for number in range(6)]
            while len(server.requests) < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert len(server.requests) == 2
            release.set()
            assert [response.body for response in await asyncio.gather(*asked)] == [
                b"%d" % n for n in range(6)
            ]
            assert server.connections == 2
            assert [request.body for request in server.requests[2:]] == [b"2", b"3", b"4", b"5"]
            await client.close()

    run(main())


def test_a_write_that_has_waited_for_a_connection_is_sent_only_if_it_still_may_be() -> None:
    async def main() -> None:
        let_go, may_write = asyncio.Event(), [True]

        async def answer(request: Request, reply: Reply) -> None:
            await let_go.wait()
            await reply.send(200, b"ok")

        async with serving(answer) as server:
            client = client_of(server, limit=1)

            async def write() -> Response:
                return await client.request("POST", "/", b"Host: a\r\n", b"", 20.0, lambda: may_write[0])

            first, second = asyncio.create_task(write()), asyncio.create_task(write())
            while not server.requests:
                await asyncio.sleep(0.001)
            may_write[0] = False  # the lease is lost, or the process was paused for longer than that
            let_go.set()
            assert (await first).status == 200
            with pytest.raises(Unreachable, match="may no longer write") as failure:
                await second
            assert not failure.value.sent
            assert len(server.requests) == 1
            may_write[0] = True
            assert (await write()).status == 200  # its place was given back
            await client.close()

    run(main())


def test_a_request_given_up_while_waiting_for_a_connection_takes_no_turn() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await gate.wait()
        await reply.send(200)

    gate = asyncio.Event()

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server, limit=1)
            first = asyncio.ensure_future(ask(client))
            given_up = [asyncio.ensure_future(ask(client)) for _ in range(3)]
            last = asyncio.ensure_future(ask(client))
            while not server.requests:
                await asyncio.sleep(0.01)
            for task in given_up:
                task.cancel()
            await asyncio.gather(*given_up, return_exceptions=True)
            gate.set()
            await asyncio.gather(first, last)
            assert len(server.requests) == 2
            await client.close()

    run(main())


def test_a_request_given_up_under_way_does_not_leave_its_answer_to_the_next() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if request.body == b"slow":
            await asyncio.sleep(0.2)
        await reply.send(200, request.body)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server, limit=1)
            slow = asyncio.ensure_future(ask(client, "POST", b"slow"))
            while not server.requests:
                await asyncio.sleep(0.01)
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            assert (await ask(client, "POST", b"next")).body == b"next"
            await client.close()

    run(main())


def test_a_server_that_says_close_is_not_asked_on_that_connection_again() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.send(200, b"x", Connection="close")

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            for _ in range(3):
                await ask(client, "POST")
            assert server.connections == 3
            await client.close()

    run(main())


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        reply._writer.close()

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            assert (await ask(client)).body == b"all of it"
            await client.close()

    run(main())


def test_hints_before_the_answer_are_passed_over() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        await reply.send(200, b"yes")

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            response = await ask(client)
            assert (response.status, response.body, response.header(b"link")) == (200, b"yes", "")
            await client.close()

    run(main())


# ---- dead connections


async def die_after_the_first(request: Request, reply: Reply) -> None:
    """The first connection answers once; what is sent on it then is read, and the connection cut."""
    if request.connection == 1 and request.body == b"second":
        reply.cut()
    else:
        await reply.send(200, request.body)


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_a_write_on_a_kept_connection_that_died_is_not_repeated(method: str) -> None:
    async def main() -> None:
        async with serving(die_after_the_first) as server:
            client = client_of(server)
            await ask(client, method, b"first")
            with pytest.raises(Unreachable) as caught:
                await ask(client, method, b"second")
            assert caught.value.sent
            assert caught.value.cause == "the connection was closed before an answer"
            assert caught.value.request == f"{method} /path?x=1"
            assert [request.body for request in server.requests] == [b"first", b"second"]
            await client.close()

    run(main())


def test_a_read_on_a_kept_connection_that_died_is_repeated_on_a_new_one() -> None:
    async def main() -> None:
        async with serving(die_after_the_first) as server:
            client = client_of(server)
            await ask(client, "GET", b"first")
            assert (await ask(client, "GET", b"second")).body == b"second"
            assert [request.connection for request in server.requests] == [1, 1, 2]
            await client.close()

    run(main())


def test_a_read_is_repeated_once_only() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if request.body == b"first":
            await reply.send(200)
        else:
            reply.cut()

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            await asyncio.gather(*(ask(client, "GET", b"first") for _ in range(3)))
            with pytest.raises(Unreachable):
                await ask(client, "GET", b"second")
            assert [request.body for request in server.requests].count(b"second") == 2
            await client.close()

    run(main())


def test_a_connection_closed_while_idle_is_noticed_before_anything_is_sent() -> None:
    async def main() -> None:
        async with serving(ok) as server:
            client = client_of(server)
            await ask(client, "POST", b"1")
            server.cut_all()
            await asyncio.sleep(0.05)
            assert (await ask(client, "POST", b"2")).body == b"2"
            assert server.connections == 2
            await client.close()

    run(main())


def test_a_cut_in_the_middle_of_an_answer_is_never_repeated() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if len(server_of[0].requests) == 1:
            await reply.send(200)
            return
        await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        reply._writer.close()

    server_of: list[Loopback] = []

    async def main() -> None:
        async with serving(answer) as server:
            server_of.append(server)
            client = client_of(server)
            await ask(client)
            with pytest.raises(Unreachable, match="closed in the middle of the answer"):
                await ask(client)
            assert len(server.requests) == 2
            await client.close()

    run(main())


def test_nobody_listening_is_told_as_such_and_nothing_was_sent() -> None:
    async def main() -> None:
        async with serving(ok) as server:
            client = client_of(server)
        with pytest.raises(Unreachable) as caught:
            await ask(client, "POST")
        assert not caught.value.sent
        assert "refused" in caught.value.cause.lower() or "connect call failed" in caught.value.cause.lower()
        assert caught.value.server == server.url
        await client.close()

    run(main())


def test_a_failed_connection_gives_its_place_to_the_next() -> None:
    async def main() -> None:
        async with serving(ok) as server:
            port = server.port
            client = client_of(server, limit=1)
        for _ in range(3):
            with pytest.raises(Unreachable):
                await ask(client)
        async with serving(ok, port=port):
            assert (await ask(client)).status == 200
        await client.close()

    run(main())


# ---- servers that misbehave


def test_an_answer_that_never_comes_ends_at_the_deadline() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await asyncio.sleep(20)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            with pytest.raises(Unreachable) as caught:
                await ask(client, "POST", timeout=0.2)
            assert caught.value.sent
            assert caught.value.cause == "timed out"
            await client.close()

    run(main())


def test_an_answer_that_drips_ends_at_the_deadline() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        while True:
            await reply.chunk(b"x")
            await asyncio.sleep(0.02)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            with pytest.raises(Unreachable, match="timed out while reading the response"):
                await ask(client, timeout=0.3)
            await client.close()

    run(main())


def test_what_is_not_http_is_told_as_such() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.raw(b"SSH-2.0-OpenSSH_9.6\r\n")

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            with pytest.raises(Unreachable, match="the answer is not HTTP"):
                await ask(client)
            await client.close()

    run(main())


@pytest.mark.parametrize(
    ("first", "rest"),
    [(b"", b"1\r\na\r\n" * 1000), (b"0\r\nX: ", b"y" * 1000), (b"0\r\n", b"X: yyyyy\r\n" * 100)],
)
def test_trailers_and_tiny_chunks_without_end_are_cut_off(first: bytes, rest: bytes) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + first)
        for _ in range(10 * LARGEST_FRAMING // 1000):
            await reply.raw(rest)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            with pytest.raises(Unreachable, match="bytes of the answer are not its content"):
                await ask(client)
            await client.close()

    run(main())


def test_headers_without_end_are_cut_off() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 200 OK\r\n")
        for number in range(10 * LARGEST_HEAD // 1000):
            await reply.raw(b"X-%d: %b\r\n" % (number, b"y" * 1000))

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            with pytest.raises(Unreachable, match="headers of the answer are longer than"):
                await ask(client)
            await client.close()

    run(main())


def test_an_answer_longer_than_the_bound_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.client.http.connection.LARGEST_BODY", 1000)

    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        for _ in range(3):
            await reply.chunk(b"x" * 400)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            with pytest.raises(Unreachable, match="response body exceeds 1000 bytes"):
                await ask(client)
            await client.close()

    run(main())


def test_an_answer_that_nobody_asked_for_spoils_only_its_connection() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.send(200, b"right")
        if request.connection == 1:
            await reply.send(200, b"wrong")

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            assert (await ask(client)).body == b"right"
            await asyncio.sleep(0.05)
            assert (await ask(client)).body == b"right"
            assert server.connections == 2
            await client.close()

    run(main())


def test_a_connection_that_nobody_needs_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.client.http.client._IDLE_FOR", 0.0)

    async def main() -> None:
        async with serving(ok) as server:
            client = client_of(server)
            await ask(client)
            while server.writers:
                await asyncio.sleep(0.01)
            await ask(client)
            assert server.connections == 2
            await client.close()

    run(main())


def test_a_read_that_takes_too_long_on_a_kept_connection_is_not_repeated() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if request.body == b"slow":
            await asyncio.sleep(20)
        await reply.send(200)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            await ask(client)
            with pytest.raises(Unreachable, match="timed out"):
                await ask(client, "GET", b"slow", timeout=0.1)
            assert len(server.requests) == 2
            await client.close()

    run(main())


def test_closing_ends_what_is_under_way_and_refuses_what_comes_later() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await asyncio.sleep(20)

    async def main() -> None:
        async with serving(answer) as server:
            client = client_of(server)
            under_way = asyncio.ensure_future(ask(client))
            while not server.requests:
                await asyncio.sleep(0.01)
            await client.close()
            for request in (under_way, ask(client)):
                with pytest.raises(Unreachable, match="closed by the client"):
                    await request

    run(main())
