"""Connections through a proxy: CONNECT over HTTP or HTTPS, and SOCKS5."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import ssl
from collections.abc import Callable
from typing import Literal

import msgspec

from mooring.client.http.failures import describe

_LARGEST_ANSWER = 64 * 1024
_SOCKS_REFUSALS = {
    1: "general failure", 2: "not allowed", 3: "network unreachable", 4: "host unreachable",
    5: "connection refused", 6: "TTL expired", 7: "command not supported", 8: "address type not supported",
}  # fmt: skip


class Proxy(msgspec.Struct, frozen=True):
    """A proxy; its representation shows no password."""

    scheme: Literal["http", "https", "socks5"]
    host: str
    port: int
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    async def open(self, host: str, port: int) -> asyncio.Transport:
        """A connection to the host, through the proxy. Raises ConnectionError."""
        loop = asyncio.get_running_loop()
        context = ssl.create_default_context() if self.scheme == "https" else None
        try:
            transport, talk = await loop.create_connection(_Talk, self.host, self.port, ssl=context)
        except OSError as error:
            raise ConnectionError(f"proxy {self}: {describe(error)}") from error
        try:
            if self.scheme == "socks5":
                await self._socks(transport, talk, host, port)
            else:
                await self._connect(transport, talk, host, port)
        except BaseException as error:
            transport.abort()
            if isinstance(error, OSError | ValueError):
                raise ConnectionError(f"proxy {self}: {describe(error)}") from error
            raise
        return transport

    async def _connect(self, transport: asyncio.Transport, talk: _Talk, host: str, port: int) -> None:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
        if self.username or self.password:
            secret = base64.b64encode(f"{self.username}:{self.password}".encode()).decode("ascii")
            request += f"Proxy-Authorization: Basic {secret}\r\n"
        transport.write((request + "\r\n").encode("ascii"))
        answer = await talk.take(_end_of_head)
        first = answer.partition(b"\r\n")[0].decode("latin-1")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/"):
            raise ValueError("response is not HTTP")
        if not status.startswith("2"):
            raise ValueError(f"tunnel to {target} refused: {status}")

    async def _socks(self, transport: asyncio.Transport, talk: _Talk, host: str, port: int) -> None:
        """RFC 1928, with the names and passwords of RFC 1929."""
        secret = bool(self.username or self.password)
        transport.write(b"\x05\x01\x02" if secret else b"\x05\x01\x00")
        version, method = await talk.take(_exactly(2))
        if version != 5 or method != (2 if secret else 0):
            raise ValueError(
                "unsupported authentication method requested" if version == 5 else "response is not SOCKS5"
            )
        if secret:
            transport.write(b"\x01" + _counted(self.username.encode()) + _counted(self.password.encode()))
            if (await talk.take(_exactly(2)))[1] != 0:
                raise ValueError("user name and password rejected")
        transport.write(b"\x05\x01\x00" + _socks_address(host) + port.to_bytes(2, "big"))
        _, refusal, _, kind, length = await talk.take(_exactly(5))
        if refusal:
            why = _SOCKS_REFUSALS.get(refusal, str(refusal))
            raise ValueError(f"tunnel to {host}:{port} refused: {why}")
        await talk.take(_exactly({1: 3, 3: length, 4: 15}.get(kind, 0) + 2))  # the address it goes out from


class _Talk(asyncio.Protocol):
    """What the proxy says before it is transparent."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    async def take(self, end: Callable[[bytearray], int]) -> bytes:
        """The first bytes, up to where `end` says they end; it says 0 while there are too few."""
        while not (size := end(self._buffer)):
            if self._ended:
                raise ConnectionResetError("connection closed")
            if len(self._buffer) > _LARGEST_ANSWER:
                raise ValueError(f"response exceeds {_LARGEST_ANSWER} bytes")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _end_of_head(buffer: bytearray) -> int:
    position = buffer.find(b"\r\n\r\n")
    return position + 4 if position >= 0 else 0


def _exactly(size: int) -> Callable[[bytearray], int]:
    return lambda buffer: size if len(buffer) >= size else 0


def _counted(text: bytes) -> bytes:
    return len(text).to_bytes(1, "big") + text


def _socks_address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return b"\x03" + _counted(host.encode("idna"))
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed
