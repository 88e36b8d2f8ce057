"""Requests with a part that never ends are rejected at the limit, by all three servers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest

from mooring import extender as ext
from mooring.api.objects import Node
from tests.extender.serving_kit import extender
from tests.sandbox.apiserver.kit import Running, running
from tests.serving.kit import LOOPS, run, serving, trusting_all

GIVES_UP = 64 * 1024 * 1024  # bytes after which a client gives up: more than the buffers of a connection hold
HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
IN_HEAD = {
    "URL": b"GET /",
    "header name": HEAD,
    "header value": HEAD + b"X-Large: ",
    "many headers": HEAD,
}
"""What comes before the part that never ends."""
IN_BODY = {
    "trailer name": b"2\r\n{}\r\n0\r\n",
    "trailer value": b"2\r\n{}\r\n0\r\nX-Large: ",
    "many trailers": b"2\r\n{}\r\n0\r\n",
    "chunk extension": b"2;",
}
"""The same, after the head of a chunked request."""


def send_endless(client: socket.socket, kind: str, post: str) -> list[int]:
    """Send a request that never ends, with `post` as the line and headers of one that has a body. Return the
    codes of the answers."""
    lines = f"{post}\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    opening = IN_HEAD[kind] if kind in IN_HEAD else lines + IN_BODY[kind]
    piece = b"X-Name: value\r\n" * 1000 if kind.startswith("many") else b"a" * 16_000
    sent, answer = 0, b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        client.sendall(opening)
        while sent < GIVES_UP and not answer:
            client.sendall(piece)
            sent += len(piece)
            answer = receive(client, 0)
    assert sent < GIVES_UP
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := receive(client, 10):
            answer += data
    return [int(each[:3]) for each in answer.split(b"HTTP/1.1 ")[1:]]


def receive(client: socket.socket, seconds: float) -> bytes:
    """Return what arrives within some seconds; empty at the end of the connection, too."""
    client.settimeout(seconds)
    try:
        return client.recv(65_536)
    except (BlockingIOError, ssl.SSLWantReadError, TimeoutError):
        return b""
    finally:
        client.settimeout(10)


@contextlib.contextmanager
def secured(port: int) -> Iterator[socket.socket]:
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        trusting_all().wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        yield connection


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", [*IN_HEAD, *IN_BODY])
def test_endpoints(kind: str, loop: str) -> None:
    def client(port: int) -> list[int]:
        with secured(port) as connection:
            return send_endless(connection, kind, "POST /healthz HTTP/1.1")

    async def main() -> None:
        async with serving() as it:
            codes = await asyncio.to_thread(client, it.server.port)
            assert codes == [431] or (kind in IN_BODY and codes == [405])  # answered before the body is read
            assert (await it.ask("/healthz")).status == 200
            while it.server.connections:
                await asyncio.sleep(0.01)

    run(main(), loop)


@ext.filter
def all_pass(nodes: list[Node]) -> list[Node]:
    return nodes


@pytest.mark.parametrize("kind", [*IN_HEAD, *IN_BODY])
def test_extenders(kind: str) -> None:
    post = "POST /filter HTTP/1.1\r\nContent-Type: application/json"
    with extender(all_pass) as it, socket.create_connection(("127.0.0.1", it.port)) as client:
        assert send_endless(client, kind, post) == [431]
        assert it.ask("GET", "/healthz").code == 200


@pytest.fixture(scope="module")
def api() -> Iterator[Running]:
    with running() as server:
        yield server


@pytest.mark.parametrize("kind", [*IN_HEAD, *IN_BODY])
def test_the_api_server(api: Running, kind: str) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    post = f"POST {path} HTTP/1.1\r\nAuthorization: Bearer {api.server.token}"
    with secured(int(api.server.url.rpartition(":")[2])) as connection:
        assert send_endless(connection, kind, post) == [431]
    assert api.ask("GET", "/version").code == 200


def test_trailers_are_not_headers(api: Running) -> None:
    """A trailer that says who sends the request is not taken for a header."""
    authorization = f"Authorization: Bearer {api.server.token}\r\n".encode()
    post = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    with secured(int(api.server.url.rpartition(":")[2])) as connection:
        connection.sendall(post + b"\r\n2\r\n{}\r\n0\r\n" + authorization + b"\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 401 ")
