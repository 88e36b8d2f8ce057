"""Connections by TCP to what pods serve, as forwarded ports have them."""

from __future__ import annotations

import gc
import weakref

import pytest

from mooring.sandbox.network.messages import LARGEST, RefusedError
from mooring.sandbox.network.services import Source
from mooring.sandbox.programs.conversations import Conversation, connect
from tests.sandbox.network.kit import Net, Tree, connected

HEAD = b"POST /echo?msg=hi HTTP/1.1\r\nHost: a\r\n"
TESTER: Tree = {"image": "agnhost", "args": ["port-forward-tester"]}


def dial(net: Net, pod: Tree, port: int) -> Conversation:
    network = net.server.api.network
    assert network is not None
    return connect(network, Source(pod["status"]["podIP"], "node-1"), "127.0.0.1", port)


def say(conversation: Conversation, data: bytes) -> bytes:
    return b"".join(conversation.receive(data))


def variables(**values: str) -> Tree:
    amounts = {"BIND_PORT": "80", "CHUNKS": "10", "CHUNK_SIZE": "10", "CHUNK_INTERVAL": "100"}
    return {
        **TESTER,
        "env": [{"name": name, "value": value} for name, value in {**amounts, **values}.items()],
    }


def test_requests_by_http_come_in_pieces_and_together() -> None:
    async def scene(net: Net) -> None:
        conversation = dial(net, await net.serve("web"), 8080)
        assert say(conversation, b"GET /hostname HTT") == b""
        answers = say(conversation, b"P/1.1\r\n\r\nHEAD /hostname HTTP/1.1\r\n\r\n")
        assert answers.count(b"HTTP/1.1 200 OK\r\n") == 2
        assert answers.count(b"\r\n\r\nweb") == 1
        assert say(conversation, HEAD + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n").startswith(
            b"HTTP/1.1 100 Continue\r\n"
        )
        assert say(conversation, b"abc").endswith(b"\r\n\r\nhi")
        assert say(conversation, HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").endswith(
            b"hi"
        )
        assert b"Connection: close" in say(conversation, b"GET /hostname HTTP/1.0\r\n\r\n")
        assert conversation.is_over
        assert say(conversation, b"GET /hostname HTTP/1.1\r\n\r\n") == b""

    connected(scene)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 70_000, b"400"),
        (HEAD + b"Content-Length: %d\r\n\r\n" % (LARGEST + 1) + b"x" * (LARGEST + 1), b"413"),
    ],
)
def test_what_a_server_does_not_read_ends_the_connection(data: bytes, status: bytes) -> None:
    async def scene(net: Net) -> None:
        conversation = dial(net, await net.serve("web"), 8080)
        assert say(conversation, data).split()[1] == status

    connected(scene)


def test_a_connection_ends_with_its_program() -> None:
    async def scene(net: Net) -> None:
        pod = await net.serve("web")
        conversation = dial(net, pod, 8080)
        assert say(conversation, b"GET /exit HTTP/1.1\r\n\r\n") == b""
        assert conversation.is_over
        with pytest.raises(RefusedError):
            dial(net, pod, 8079)

    connected(scene)


def test_nothing_is_kept_of_a_closed_connection() -> None:
    """Garbage is collected rarely: a client could leave much of it."""

    async def scene(net: Net) -> None:
        conversation = dial(net, await net.serve("web"), 8080)
        say(conversation, HEAD + b"Content-Length: 10\r\n\r\nabc")
        reference = weakref.ref(conversation)
        conversation.close()
        assert conversation.is_over
        gc.disable()
        try:
            del conversation
            assert reference() is None
        finally:
            gc.enable()

    connected(scene)


def test_the_tester_of_port_forwarding_sends_when_it_has_received() -> None:
    async def scene(net: Net) -> None:
        conversation = dial(net, await net.serve("expecting", **variables(EXPECTED_CLIENT_DATA="abc")), 80)
        assert say(conversation, b"ab") == b""
        assert say(conversation, b"c") == b"x" * 100
        assert conversation.is_over
        log = "Accepted client connection\nReceived expected client data\nShutting down connection\nDone\n"
        assert await net.log("expecting") == log

    connected(scene)


def test_the_tester_fails_if_it_receives_nothing() -> None:
    async def scene(net: Net) -> None:
        conversation = dial(net, await net.serve("expecting", **variables(EXPECTED_CLIENT_DATA="abc")), 80)
        assert say(conversation, b"") == b""
        assert list(conversation.end()) == []
        line = "Expected to read 3 bytes from client, but got 0 instead. err=EOF\n"
        assert await net.log("expecting") == f"Accepted client connection\n{line}"

    connected(scene)


def test_the_tester_may_send_at_once() -> None:
    async def scene(net: Net) -> None:
        conversation = dial(net, await net.serve("sending", **variables()), 80)
        assert [*conversation.receive(b"")] == [b"x" * 10] * 10
        other = dial(net, await net.get("pods", "sending"), 80)
        assert say(other, b"abc") == b""

    connected(scene)
