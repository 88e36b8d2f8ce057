"""Connections to extenders: kept, replaced when they died, secured, and limited in time and size."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.config import ConfigError, from_object
from mooring.extender.calling import connections
from mooring.extender.calling.connections import Connections, ExchangeError
from mooring.extender.calling.make import make_extenders
from tests.client.certificates import Authority
from tests.extender.calling_kit import MADE, Setting, nodes, passing, pod, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def speaking(talk: Callable[[socket.socket, int], None]) -> Iterator[str]:
    """A server that does with each connection, the n-th, what `talk` says."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        for n in range(100):
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                talk(peer, n)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@contextmanager
def connected(url: str) -> Iterator[Connections]:
    made = Connections(url, None)
    try:
        yield made
    finally:
        made.close()


def test_one_connection_serves_pod_after_pod() -> None:
    with serving(filter=passing("a", "b"), score=lambda request: []) as extender:
        setting = Setting(
            {"urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "score", "weight": 1}
        )
        setting.apply(*nodes("a", "b"), *(pod(f"p{i}") for i in range(5)))
        assert len(extender.requests) == 10
        assert extender.connections == 1


def test_an_extender_that_closes_after_each_answer_is_connected_to_again() -> None:
    with serving(filter=passing("a")) as extender:
        extender.keep_alive = False
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter"})
        setting.apply(*nodes("a"), *(pod(f"p{i}") for i in range(3)))
        assert extender.connections == 3
        assert all(each.spec.node_name == "a" for each in setting.cluster.pods.values())


def test_a_kept_connection_that_died_is_replaced() -> None:
    """The second request on it is answered by nothing; a new connection then gets it again."""

    def talk(peer: socket.socket, n: int) -> None:
        peer.recv(65536)
        peer.sendall(OK)
        if n == 0:
            peer.recv(65536)  # and says nothing

    with speaking(talk) as url, connected(url) as extender:
        assert extender.post("filter", [b"{}"], 5.0, again=True) == (200, b"{}")
        assert extender.post("filter", [b"{}"], 5.0, again=True) == (200, b"{}")


def test_a_binding_is_not_sent_twice() -> None:
    def talk(peer: socket.socket, n: int) -> None:
        peer.recv(65536)
        peer.sendall(OK)
        peer.recv(65536)

    with speaking(talk) as url, connected(url) as extender:
        assert extender.post("bind", [b"{}"], 5.0, again=False) == (200, b"{}")
        with pytest.raises(ExchangeError, match="EOF"):
            extender.post("bind", [b"{}"], 5.0, again=False)


def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    closed = threading.Event()

    def talk(peer: socket.socket, n: int) -> None:
        peer.recv(65536)
        peer.sendall(OK)
        if n == 0:
            peer.shutdown(socket.SHUT_RDWR)
            closed.set()

    with speaking(talk) as url, connected(url) as extender:
        extender.post("bind", [b"{}"], 5.0, again=False)
        assert closed.wait(5)
        assert extender.post("bind", [b"{}"], 5.0, again=False) == (200, b"{}")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n{}", b"{}"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", b"{}"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"{}"),
    ],
)
def test_answers_in_all_forms_of_http(answer: bytes, found: bytes) -> None:
    def talk(peer: socket.socket, n: int) -> None:
        peer.recv(65536)
        peer.sendall(answer)

    with speaking(talk) as url, connected(url) as extender:
        assert extender.post("filter", [b"{}"], 5.0, again=True) == (200, found)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", "unexpected EOF"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 400000 + b"\r\n\r\n{}", "headers longer than"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 40_000,
            "trailers or sizes",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 400_000, "trailers or"),
        (b"", "EOF"),
    ],
)
def test_what_is_no_answer_is_told(answer: bytes, cause: str) -> None:
    def talk(peer: socket.socket, n: int) -> None:
        peer.recv(65536)
        peer.sendall(answer)

    with speaking(talk) as url, connected(url) as extender, pytest.raises(ExchangeError, match=cause):
        extender.post("filter", [b"{}"], 5.0, again=True)


def test_an_answer_that_drips_is_given_up_in_time() -> None:
    over = threading.Event()

    def talk(peer: socket.socket, n: int) -> None:
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not over.wait(0.01):
            try:
                peer.sendall(b" ")
            except OSError:
                return

    with speaking(talk) as url, connected(url) as extender:
        with pytest.raises(ExchangeError, match="while reading body"):
            extender.post("filter", [b"{}"], 0.2, again=True)
        over.set()


def test_a_refusal_in_the_middle_of_a_large_request_is_heard() -> None:
    def talk(peer: socket.socket, n: int) -> None:
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(1 << 20):
            pass

    with speaking(talk) as url, connected(url) as extender:
        status, _ = extender.post("filter", [b" " * connections.CHUNK] * 8, 5.0, again=True)
        assert status == 413


# ---- TLS


def tls_of(authority: Authority, **parts: Any) -> dict[str, Any]:
    import base64

    trusted = base64.b64encode(authority.certificate).decode()
    return {"caData": trusted, **{key: base64.b64encode(part).decode() for key, part in parts.items()}}


def test_a_client_certificate_is_shown_and_the_server_checked() -> None:
    authority, clients = Authority("servers"), Authority("clients")
    server, client = authority.issue("extender", "127.0.0.1"), clients.issue("scheduler")
    with serving(server.context(client_authority=clients.certificate), filter=passing("a")) as extender:
        tls = tls_of(authority, certData=client.certificate, keyData=client.key)
        ask = {"urlPrefix": extender.url, "filterVerb": "filter", "enableHTTPS": True}
        setting = Setting({**ask, "tlsConfig": tls})
        setting.apply(*nodes("a", "b"), pod())
        assert setting.node_of("web") == "a"
        anonymous = Setting({**ask, "tlsConfig": tls_of(authority)})
        anonymous.apply(*nodes("a"), pod())
        assert anonymous.last.result == "error"
        assert anonymous.message("web").startswith(f'Post "{extender.url}/filter": ')


def test_files_serve_as_well(tmp_path: Path) -> None:
    authority = Authority("servers")
    server, client = authority.issue("extender", "127.0.0.1"), authority.issue("scheduler")
    for name, content in (("ca", authority.certificate), ("crt", client.certificate), ("key", client.key)):
        (tmp_path / name).write_bytes(content)
    tls = {
        key: str(tmp_path / name) for key, name in (("caFile", "ca"), ("certFile", "crt"), ("keyFile", "key"))
    }
    with serving(server.context(client_authority=authority.certificate), filter=passing("a")) as extender:
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "tlsConfig": tls})
        setting.apply(*nodes("a"), pod())
        assert setting.node_of("web") == "a"


def test_a_server_of_another_authority_or_name_is_not_trusted() -> None:
    authority = Authority("servers")
    server = authority.issue("extender", "extender.example")
    with serving(server.context(), filter=passing("a")) as extender:
        ask = {"urlPrefix": extender.url, "filterVerb": "filter"}
        trusts: list[tuple[dict[str, Any], str]] = [
            ({"tlsConfig": tls_of(Authority("others"))}, ""),
            ({"tlsConfig": tls_of(authority)}, ""),
            ({}, ""),
            ({"tlsConfig": {**tls_of(authority), "serverName": "extender.example"}}, "a"),
            ({"tlsConfig": {"insecure": True}}, "a"),
            (
                {"enableHTTPS": True},
                "a",
            ),  # without an authority any certificate will do, as in kube-scheduler
        ]
        for trust, expected in trusts:
            setting = Setting({**ask, **trust})
            setting.apply(*nodes("a"), pod())
            assert setting.node_of("web") == expected, trust
            if not expected:
                assert "tls: failed to verify certificate: " in setting.message("web")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"urlPrefix": "localhost:8080"}, 'extenders[0].urlPrefix: found "localhost:8080", expected http://'),
        ({"urlPrefix": ""}, 'extenders[0].urlPrefix: found "", expected http://'),
        (
            {"urlPrefix": "http://h", "filterVerb": "f r"},
            'extenders[0].filterVerb: found "f r", expected what',
        ),
        ({"urlPrefix": "http://a b"}, 'extenders[0].urlPrefix: found "http://a b", expected'),
        ({"urlPrefix": "http://h:port"}, 'extenders[0].urlPrefix: found "http://h:port", expected'),
        (
            {"urlPrefix": "https://h", "tlsConfig": {"caFile": "absent.pem"}},
            "extenders[0].tlsConfig: absent.pem: certificate-authority: cannot be read: No such file",
        ),
        (
            {"urlPrefix": "https://h", "tlsConfig": {"certData": "eA=="}},
            "extenders[0].tlsConfig: certificate without its key",
        ),
        (
            {"urlPrefix": "https://h", "tlsConfig": {"caData": "eA=="}},
            "extenders[0].tlsConfig: extenders[0].tlsConfig.caData: found no certificate, expected PEM",
        ),
    ],
)
def test_what_cannot_be_is_told_at_the_start(parts: dict[str, Any], message: str) -> None:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    with pytest.raises(ConfigError) as found:
        MADE.extend(make_extenders(from_object({**kind, "extenders": [{"filterVerb": "filter", **parts}]})))
    assert message in str(found.value)
