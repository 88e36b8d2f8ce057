"""TLS: whom we trust, as whom we come, and proxies in between."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from mooring.client.api_errors import Unreachable
from mooring.client.credentials import CredentialsError
from mooring.client.credentials.identity import Proof
from mooring.client.credentials.trust import Trust, tls_context
from mooring.client.http.client import HttpClient
from mooring.client.http.connection import Response
from mooring.client.http.route import Route
from mooring.client.http.tunnel import Proxy
from tests.client.api_kit import run
from tests.client.certificates import Authority, authority, loopback
from tests.client.loopback import Reply, Request, serving


async def ok(request: Request, reply: Reply) -> None:
    await reply.send(200, b"ok")


def trusting(trust: Trust | None = None, proof: Proof | None = None) -> ssl.SSLContext:
    trust = trust or Trust(authority().certificate)
    return tls_context(trust, trust.read(), proof or Proof())


async def ask(route: Route, context: ssl.SSLContext | None) -> Response:
    client = HttpClient(f"https://{route.host}:{route.port}", route, 1)
    client.tls = context
    try:
        return await client.request("GET", "/", b"Host: here\r\n", b"", 10)
    finally:
        await client.close()


def test_a_server_of_a_trusted_authority_is_spoken_to() -> None:
    async def main() -> None:
        async with serving(ok, loopback().context()) as server:
            assert (await ask(Route("127.0.0.1", server.port), trusting())).body == b"ok"

    run(main())


@pytest.mark.parametrize(
    ("trust", "route_name", "cause"),
    [
        (Trust(Authority("another").certificate), "", "certificate is not trusted: .*certificate"),
        (Trust(), "", "certificate is not trusted: .*certificate"),  # the system's authorities
        (
            Trust(authority().certificate),
            "elsewhere.example",
            "certificate is not trusted: .*elsewhere.example",
        ),
    ],
)
def test_another_authority_or_another_name_is_not_trusted_and_nothing_is_sent(
    trust: Trust, route_name: str, cause: str
) -> None:
    async def main() -> None:
        async with serving(ok, loopback().context()) as server:
            with pytest.raises(Unreachable, match=cause) as caught:
                await ask(Route("127.0.0.1", server.port, route_name), trusting(trust))
            assert not caught.value.sent
            assert server.requests == []

    run(main())


def test_any_certificate_will_do_where_verification_is_off() -> None:
    async def main() -> None:
        async with serving(ok, Authority("whoever").issue("x", "y.example").context()) as server:
            context = trusting(Trust(insecure=True))
            assert (await ask(Route("127.0.0.1", server.port), context)).body == b"ok"

    run(main())


def test_the_certificate_may_be_for_another_name_that_is_given() -> None:
    async def main() -> None:
        async with serving(ok, authority().issue("x", "kubernetes.default").context()) as server:
            route = Route("127.0.0.1", server.port, "kubernetes.default")
            assert (await ask(route, trusting())).body == b"ok"

    run(main())


def test_the_servers_own_certificate_may_stand_for_its_authority() -> None:
    async def main() -> None:
        async with serving(ok, loopback().context()) as server:
            context = trusting(Trust(loopback().certificate))
            assert (await ask(Route("127.0.0.1", server.port), context)).body == b"ok"

    run(main())


def test_a_client_certificate_is_shown_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = authority().issue("me")
    context = trusting(proof=Proof(certificate=mine.certificate, key=mine.key))
    assert list(tmp_path.iterdir()) == []

    async def main() -> None:
        asks = loopback().context(client_authority=authority().certificate)
        async with serving(ok, asks) as server:
            assert (await ask(Route("127.0.0.1", server.port), context)).body == b"ok"
            with pytest.raises(Unreachable):
                await ask(Route("127.0.0.1", server.port), trusting())

    run(main())


def test_a_certificate_that_does_not_load_is_told_without_its_key() -> None:
    mine, other = authority().issue("me"), authority().issue("you")
    for proof in (
        Proof(certificate=mine.certificate, key=other.key),
        Proof(certificate=b"nonsense", key=b"secret"),
    ):
        with pytest.raises(CredentialsError, match="client-certificate: cannot load") as caught:
            trusting(proof=proof)
        assert "secret" not in str(caught.value)
        assert "PRIVATE" not in str(caught.value)


def test_an_authority_that_is_no_certificate_is_told_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_text("not a certificate")
    with pytest.raises(
        CredentialsError, match=r"ca\.crt: certificate-authority: found no certificate, expected PEM"
    ):
        trusting(Trust(path))


def test_plain_http_where_tls_is_expected_is_told_as_such() -> None:
    async def complain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(complain, "127.0.0.1", 0)
        with pytest.raises(Unreachable, match="what listens there does not speak TLS") as caught:
            await ask(Route("127.0.0.1", server.sockets[0].getsockname()[1]), trusting())
        assert not caught.value.sent
        server.close()

    run(main())


def test_connections_made_with_an_older_certificate_are_not_used_again() -> None:
    async def main() -> None:
        async with serving(ok, loopback().context()) as server:
            client = HttpClient(server.url, Route("127.0.0.1", server.port), 1)
            for _ in range(2):
                client.tls = trusting()
                for _ in range(2):
                    await client.request("GET", "/", b"", b"", 10)
            assert server.connections == 2
            await client.close()

    run(main())


# ---- proxies


class ProxyServer:
    """A proxy on loopback that forwards to whatever it is told, and remembers what that was."""

    def __init__(self, reader_of: str, refuse: bytes = b"") -> None:
        self.kind = reader_of
        self.refuse = refuse
        self.port = 0
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            target = await (self._socks if self.kind == "socks5" else self._connect)(reader, writer)
            if target is not None:
                await _forward(reader, writer, *target)
        writer.transport.abort()

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[str, int] | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        writer.write(self.refuse or b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        await writer.drain()
        host, _, port = head.split(" ")[1].rpartition(":")
        return None if self.refuse else (host.strip("[]"), int(port))

    async def _socks(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[str, int] | None:
        _, count = await reader.readexactly(2)
        (method,) = await reader.readexactly(count)
        writer.write(bytes((5, method)))
        if method == 2:
            words = []
            await reader.readexactly(1)
            for _ in range(2):
                (size,) = await reader.readexactly(1)
                words.append((await reader.readexactly(size)).decode())
            self.asked.append(":".join(words))
            writer.write(b"\x01\x00" if words == ["me", "pass word"] else b"\x01\x01")
        _, _, _, kind = await reader.readexactly(4)
        if kind == 1:
            host = ".".join(map(str, await reader.readexactly(4)))
        else:
            (size,) = await reader.readexactly(1)
            host = (await reader.readexactly(size)).decode()
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append(f"{host}:{port}")
        writer.write(self.refuse or b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
        await writer.drain()
        return None if self.refuse else ("127.0.0.1", port)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
    onward_reader, onward_writer = await asyncio.open_connection(host, port)

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.transport.abort()

    await asyncio.gather(copy(reader, onward_writer), copy(onward_reader, writer))


@asynccontextmanager
async def proxying(kind: str, refuse: bytes = b"") -> AsyncIterator[ProxyServer]:
    proxy = ProxyServer(kind, refuse)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await asyncio.sleep(0.01)


def test_a_tunnel_through_a_proxy_carries_tls() -> None:
    async def main() -> None:
        async with serving(ok, loopback().context()) as server, proxying("http") as proxy:
            route = Route(
                "127.0.0.1", server.port, "", Proxy("http", "127.0.0.1", proxy.port, "me", "pass word")
            )
            assert (await ask(route, trusting())).body == b"ok"
            (head,) = proxy.asked
            assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n")
            secret = base64.b64encode(b"me:pass word").decode()
            assert f"Proxy-Authorization: Basic {secret}\r\n" in head
            with pytest.raises(Unreachable, match="certificate is not trusted"):
                await ask(route, trusting(Trust(Authority("another").certificate)))

    run(main())


def test_a_tunnel_carries_plain_http_too() -> None:
    async def main() -> None:
        async with serving(ok) as server, proxying("http") as proxy:
            route = Route("127.0.0.1", server.port, "", Proxy("http", "127.0.0.1", proxy.port))
            assert (await ask(route, None)).body == b"ok"
            assert "Proxy-Authorization" not in proxy.asked[0]

    run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "api.example"])
def test_socks_proxies_resolve_names_themselves(host: str) -> None:
    async def main() -> None:
        certificate = authority().issue("x", host)
        async with serving(ok, certificate.context()) as server, proxying("socks5") as proxy:
            route = Route(host, server.port, "", Proxy("socks5", "127.0.0.1", proxy.port, "me", "pass word"))
            assert (await ask(route, trusting())).body == b"ok"
            assert proxy.asked == ["me:pass word", f"{host}:{server.port}"]

    run(main())


@pytest.mark.parametrize(
    ("proxy", "refuse", "cause"),
    [
        (
            Proxy("http", "127.0.0.1", 0, "me", "hush"),
            b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            r"proxy http://127.0.0.1:\d+: tunnel to 127.0.0.1:9 refused: 407 Proxy Authentication",
        ),
        (Proxy("http", "127.0.0.1", 0), b"garbage\r\n\r\n", "response is not HTTP"),
        (Proxy("http", "127.0.0.1", 0), b"HTTP/1.1 200", "connection closed"),
        (Proxy("http", "127.0.0.1", 0), b"x" * 100_000, "response exceeds 65536 bytes"),
        (
            Proxy("socks5", "127.0.0.1", 0),
            b"\x05\x02\x00\x01\x00",
            r"proxy socks5://127.0.0.1:\d+: tunnel to 127.0.0.1:9 refused: not allowed",
        ),
        (Proxy("socks5", "127.0.0.1", 0, "me", "hush"), b"", "user name and password rejected"),
    ],
)
def test_a_proxy_that_refuses_is_told_without_the_password(proxy: Proxy, refuse: bytes, cause: str) -> None:
    async def main() -> None:
        async with proxying(proxy.scheme, refuse) as server:
            way = Proxy(proxy.scheme, proxy.host, server.port, proxy.username, proxy.password)
            with pytest.raises(Unreachable, match=cause) as caught:
                await ask(Route("127.0.0.1", 9, "", way), None)
            assert not caught.value.sent
            assert "hush" not in str(caught.value)
            assert "hush" not in repr(way)

    run(main())


def test_a_proxy_that_is_not_there_is_told_as_the_proxy() -> None:
    async def main() -> None:
        async with proxying("http") as proxy:
            port = proxy.port
        with pytest.raises(Unreachable, match=rf"proxy http://127.0.0.1:{port}: "):
            await ask(Route("127.0.0.1", 9, "", Proxy("http", "127.0.0.1", port)), None)

    run(main())
