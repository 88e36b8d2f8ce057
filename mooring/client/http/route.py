"""The way to a server, and how a connection is opened over it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

import msgspec

from mooring.client.http.connection import Connection
from mooring.client.http.tunnel import Proxy

Made = TypeVar("Made", bound=Connection)


class Route(msgspec.Struct, frozen=True):
    """Where to connect to. `server_name` is the name that the server's certificate has to carry, where that
    is another than the host's."""

    host: str
    port: int
    server_name: str = ""
    proxy: Proxy | None = None

    async def open(self, make: Callable[[], Made], context: ssl.SSLContext | None) -> Made:
        """A new connection. Raises OSError or ValueError."""
        loop = asyncio.get_running_loop()
        name = (self.server_name or self.host) if context is not None else None
        if self.proxy is None:
            transport, connection = await loop.create_connection(
                make, self.host, self.port, ssl=context, server_hostname=name
            )
            _notice_dead_peers(transport.get_extra_info("socket"))
            return connection
        tunnel = await self.proxy.open(self.host, self.port)
        _notice_dead_peers(tunnel.get_extra_info("socket"))
        connection = make()
        if context is None:
            tunnel.set_protocol(connection)
            connection.connection_made(tunnel)
        else:
            inner = await loop.start_tls(tunnel, connection, context, server_hostname=name)
            assert inner is not None  # its type allows for loops without TLS
            connection.connection_made(inner)
        return connection


def _notice_dead_peers(sock: socket.socket) -> None:
    """A watch may be silent for long: the kernel finds out within a minute whether anybody is there."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
