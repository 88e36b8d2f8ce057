"""The server under real clients, good and bad: what is served, and bounds on size, time and number."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mooring.serving import server
from mooring.serving.limits import Limits
from mooring.serving.listening import listen, open_listener
from mooring.serving.memory import release_memory
from mooring.serving.messages import Answer, Handler, Request
from mooring.serving.settings import EndpointError, EndpointSettings
from tests.serving.kit import HELLO, LOOPS, TOKEN, Served, run, serving

Scenario = Callable[[Served], Awaitable[None]]


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    """Both kinds of event loops, since they have TLS of their own."""
    kind: str = request.param
    return kind


def served(
    scenario: Scenario, loop: str = "asyncio", routes: Mapping[str, Handler] = HELLO, **limits: Any
) -> None:
    async def main() -> None:
        async with serving(routes, limits=Limits(sweep_seconds=0.02, **limits)) as it:
            it.reviewer.allow("/hello", "/long", "/bug", "/below/a/b", "/nothing")
            await scenario(it)

    run(main(), loop)


# ---- requests


def test_requests_and_answers(loop: str) -> None:
    async def scenario(it: Served) -> None:
        answer = await it.ask("/hello?a=1&b&a=2", TOKEN)
        assert (answer.status, answer.text) == (200, "GET /hello [('a', ['1', '2']), ('b', [''])]")
        assert answer.headers["cache-control"] == "no-cache, private"
        assert answer.headers["content-length"] == str(len(answer.body))
        assert "server" not in answer.headers
        head = await it.ask("/hello", TOKEN, method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len("HEAD /hello []"))

    served(scenario, loop)


def test_nobody_passes_without_leave(loop: str) -> None:
    async def scenario(it: Served) -> None:
        assert (await it.ask("/healthz")).status == 200
        assert (await it.ask("/hello")).refusal == (401, "Unauthorized", "Unauthorized")
        assert (await it.ask("/hello", "wrong")).refusal == (401, "Unauthorized", "Unauthorized")
        told = 'forbidden: User "reader" cannot get path "/secret"'
        assert (await it.ask("/secret", TOKEN)).refusal == (403, "Forbidden", told)
        again = await it.ask("/secret", TOKEN)
        assert (again.json["details"], again.headers["x-content-type-options"]) == ({}, "nosniff")

    served(scenario, loop)


def test_of_two_tokens_the_first_counts() -> None:
    async def scenario(it: Served) -> None:
        lines = f"Authorization: Bearer wrong\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
        answer = await it.raw(f"GET /hello HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 401 ")

    served(scenario)


def test_paths_that_lead_nowhere() -> None:
    async def scenario(it: Served) -> None:
        assert (await it.ask("/nothing", TOKEN)).refusal[:2] == (404, "NotFound")
        for path in ("/healthz/../hello", "/healthz/", "//healthz", "/healthz%2f", "/healthz;/hello"):
            assert (await it.ask(path)).status == 401
        assert (await it.ask("/%68ello", TOKEN)).status == 200  # the same path in other letters

    served(scenario)


def test_one_handler_for_all_that_is_below() -> None:
    async def scenario(it: Served) -> None:
        assert (await it.ask("/below/a/b", TOKEN)).text.startswith("GET /below/a/b ")

    served(scenario, routes={"/below/": HELLO["/hello"]})


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(method: str) -> None:
    async def scenario(it: Served) -> None:
        answer = await it.ask("/healthz", TOKEN, method=method, body=b"x" * 100)
        assert answer.refusal[:2] == (405, "MethodNotAllowed")
        assert answer.headers["allow"] == "GET, HEAD"
        assert it.reviewer.reviewed == []

    served(scenario)


def test_too_many_parameters() -> None:
    async def scenario(it: Served) -> None:
        answer = await it.ask("/healthz?" + "&".join(["a"] * 101))
        assert answer.refusal[:2] == (400, "BadRequest")

    served(scenario)


def test_a_bug_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def bug(request: Request) -> Answer:
        raise ZeroDivisionError("oh")

    async def scenario(it: Served) -> None:
        answer = await it.ask("/bug", TOKEN)
        assert answer.refusal[:2] == (500, "InternalError")
        assert b"oh" not in answer.body

    served(scenario, routes={"/bug": bug})
    assert "GET /bug failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


# ---- bodies


def test_a_body_is_not_read_and_ends_the_connection(loop: str) -> None:
    async def scenario(it: Served) -> None:
        head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
        answer = await it.raw(head + b"x" * 1000)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
        chunked = b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        assert (await it.raw(chunked)).startswith(b"HTTP/1.1 200 ")

    served(scenario, loop)


def test_connections_are_kept_for_more_requests(loop: str) -> None:
    async def scenario(it: Served) -> None:
        one = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        assert (await it.raw(one + one + last)).count(b"HTTP/1.1 200 ") == 3

    served(scenario, loop)


# ---- bad clients


STATUS_LINES = (b"HTTP/1.1 400 ", b"HTTP/1.1 401 ", b"HTTP/1.1 405 ", b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "data",
    [
        b"rubbish\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET * HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET http://host HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"CONNECT host:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nAuthorization: Bearer " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % i for i in range(10_000)) + b"\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
    ],
    ids=["rubbish", "short", "star", "no path", "connect", "url", "token", "headers", "bytes", "tls"],
)
def test_what_is_no_request_gets_a_refusal_and_no_line_in_the_log(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(it: Served) -> None:
        answer = await it.raw(data)
        assert answer == b"" or answer.startswith(STATUS_LINES)
        assert (await it.ask("/healthz")).status == 200
        assert it.reviewer.reviewed == []

    with caplog.at_level(logging.INFO):
        served(scenario)
    assert not [record for record in caplog.records if "configmap" not in record.getMessage()]


def test_a_large_head_that_is_just_small_enough() -> None:
    async def scenario(it: Served) -> None:
        answer = await it.ask("/healthz", headers={"X-Large": "a" * 30_000})
        assert answer.status == 200

    served(scenario)


def test_who_speaks_no_tls_is_turned_away(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(it: Served) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in await _rest(reader)
        writer.close()
        assert (await it.ask("/healthz")).status == 200

    served(scenario, loop)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("data", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_head_that_does_not_come_to_an_end(data: bytes, loop: str) -> None:
    async def scenario(it: Served) -> None:
        reader, writer = await it.connect()
        writer.write(data)
        assert (await _rest(reader)).startswith(b"HTTP/1.1 408 ")
        writer.close()
        while it.server.connections:
            await asyncio.sleep(0.01)

    served(scenario, loop, head_seconds=0.1)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection ends, however it does."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_the_second_head_has_its_time_as_well() -> None:
    async def scenario(it: Served) -> None:
        reader, writer = await it.connect()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal")
        answers = await _rest(reader)
        assert answers.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 408 " in answers
        writer.close()

    served(scenario, head_seconds=0.3)


def test_idle_connections_are_closed_in_the_end(loop: str) -> None:
    async def scenario(it: Served) -> None:
        answer = await it.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")

    served(scenario, loop, idle_seconds=0)


def test_who_does_not_shake_hands_is_cut_off(loop: str) -> None:
    async def scenario(it: Served) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.server.port)
        assert await _rest(reader) == b""
        writer.close()

    served(scenario, loop, handshake_seconds=0.1)


async def _forever() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * 65_536


async def endless(request: Request) -> Answer:
    return Answer(stream=_forever())


@pytest.mark.parametrize("limit", ["answer_seconds", "send_seconds"])
def test_who_does_not_read_is_cut_off(loop: str, limit: str) -> None:
    async def scenario(it: Served) -> None:
        _, writer = await it.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(f"GET /long HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        while not it.server.connections:
            await asyncio.sleep(0.01)
        while it.server.connections:
            await asyncio.sleep(0.01)
        writer.transport.abort()

    served(scenario, loop, {"/long": endless}, **{limit: 0.3})


def test_who_leaves_in_the_middle_is_not_written_to_any_more(loop: str) -> None:
    closed = asyncio.Event()

    async def told() -> AsyncIterator[bytes]:
        try:
            async for piece in _forever():
                yield piece
                await asyncio.sleep(0)
        finally:
            closed.set()

    async def handler(request: Request) -> Answer:
        return Answer(stream=told())

    async def scenario(it: Served) -> None:
        reader, writer = await it.connect()
        writer.write(f"GET /long HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        await reader.readexactly(100_000)
        writer.transport.abort()
        await closed.wait()

    served(scenario, loop, {"/long": handler})


def test_a_stream_comes_whole(loop: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for i in range(300):
            yield b"%d\n" % i * 1000

    async def handler(request: Request) -> Answer:
        return Answer(stream=pieces())

    async def scenario(it: Served) -> None:
        answer = await it.ask("/long", TOKEN)
        assert answer.body == b"".join(b"%d\n" % i * 1000 for i in range(300))
        assert answer.headers["transfer-encoding"] == "chunked"
        assert (await it.ask("/long", TOKEN, method="HEAD")).body == b""

    served(scenario, loop, {"/long": handler})


# ---- many


def test_there_is_always_room_for_one_more(loop: str) -> None:
    async def scenario(it: Served) -> None:
        sitting = []
        for _ in range(12):
            sitting.append(await it.connect())
            await asyncio.sleep(0.01)
            assert len(it.server.connections) <= 5
        assert (await it.ask("/healthz")).status == 200
        silent = [await asyncio.open_connection("127.0.0.1", it.server.port) for _ in range(12)]
        assert (await it.ask("/healthz")).status == 200
        for _, writer in (*sitting, *silent):
            writer.transport.abort()

    served(scenario, loop, connections=5)


def test_whoever_has_shaken_hands_takes_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shake_hands = asyncio.BaseEventLoop.connect_accepted_socket

    async def lingering(*args: Any, **more: Any) -> Any:
        made = await shake_hands(*args, **more)
        await asyncio.sleep(0.5)
        return made

    monkeypatch.setattr(asyncio.BaseEventLoop, "connect_accepted_socket", lingering)

    async def scenario(it: Served) -> None:
        reader, writer = await it.connect()
        assert (await it.ask("/healthz")).status == 200
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.transport.abort()

    served(scenario, connections=2)


def test_whoever_is_being_answered_is_not_pushed_out() -> None:
    go_on = asyncio.Event()

    async def slow(request: Request) -> Answer:
        await go_on.wait()
        return Answer(body=b"at last")

    async def scenario(it: Served) -> None:
        asked = [asyncio.create_task(it.ask("/long", TOKEN)) for _ in range(2)]
        while len([each for each in it.server.connections if not each.idle]) < 2:
            await asyncio.sleep(0.01)
        with pytest.raises((ssl.SSLError, ConnectionError)):  # there is no room
            await it.connect()
        go_on.set()
        assert [(await each).text for each in asked] == ["at last"] * 2

    served(scenario, routes={"/long": slow}, connections=2)


@pytest.mark.parametrize("path", ["", "/healthz"])
def test_closed_connections_do_not_wait_for_the_garbage_collector(path: str) -> None:
    """All but those that the server has looked at last."""

    async def scenario(it: Served) -> None:
        gc.collect()
        gc.disable()
        try:
            writers = [(await it.connect())[1] for _ in range(5)]
            for writer in writers if path else ():
                writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            while len([one for one in it.server.connections if one.received or not path]) < 5:
                await asyncio.sleep(0.01)
            connections = [weakref.ref(one) for one in it.server.connections]
            await asyncio.sleep(0.05)
            for writer in writers:
                writer.transport.abort()
            while len([one for one in connections if one() is not None]) > 2:
                await asyncio.sleep(0.01)
        finally:
            gc.enable()

    served(scenario)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_memory_of_many_connections_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 200
    monkeypatch.setattr(server, "RELEASE_AFTER", count)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    async def scenario(it: Served) -> None:
        await it.ask("/healthz")
        release_memory()
        before = resident()
        writers = [(await it.connect())[1] for _ in range(count)]
        peak = resident()
        for writer in writers:
            writer.transport.abort()
        del writer, writers
        for _ in range(200):
            await asyncio.sleep(0.02)
            if resident() - before < (peak - before) // 2:
                return
        pytest.fail(f"{before} pages before, {peak} with {count} connections, {resident()} after them")

    served(scenario, connections=2 * count)


# ---- beginning and end


def test_answers_under_way_are_given_at_the_end(loop: str) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def slow(request: Request) -> Answer:
            go_on.set()
            await asyncio.sleep(0.05)
            return Answer(body=b"at last")

        async with serving({"/long": slow}) as it:
            it.reviewer.allow("/long")
            idle = await it.connect()
            asked = asyncio.create_task(it.ask("/long", TOKEN))
            await go_on.wait()
            it.serving.cancel()
            assert (await asked).text == "at last"
            assert await _rest(idle[0]) == b""
            idle[1].close()
            await asyncio.wait({it.serving})
            with pytest.raises(ConnectionRefusedError):
                await it.connect()

    run(main(), loop)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = EndpointSettings(bind_address="127.0.0.1", secure_port=port)
        with pytest.raises(EndpointError, match=f"listen on 127.0.0.1 port {port}: Address already in use"):
            open_listener(settings)


def test_an_address_that_is_none() -> None:
    with pytest.raises(EndpointError, match='--bind-address: "localhost" is not an IP address'):
        open_listener(EndpointSettings(bind_address="localhost", secure_port=0))
    with pytest.raises(EndpointError, match=r"listen on 192.0.2.1 port 0: Cannot assign requested address"):
        open_listener(EndpointSettings(bind_address="192.0.2.1", secure_port=0))


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_everywhere_is_in_both_families(address: str) -> None:
    with listen(address, 0) as listener:
        port = listener.getsockname()[1]
        for target in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            socket.create_connection((target, port)).close()
