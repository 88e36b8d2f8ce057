"""HttpServer: HTTPS or plain HTTP on an event loop that it shares with others.

uvicorn's protocol reads and writes HTTP. Connections are accepted here, so that each gets the certificate
that is current at that moment, and so that there are never too many of them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from email.utils import formatdate
from typing import Any, Protocol

import uvicorn
from uvicorn.server import ServerState

from mooring.serving.connection import Connection
from mooring.serving.exchange import Application, Service
from mooring.serving.limits import Limits
from mooring.serving.memory import release_memory
from mooring.serving.shared_turns import SharedTurns

log = logging.getLogger("mooring.serving")

REFRESH_SECONDS = 60.0  # between two looks at certificates and authorities
PAUSE_SECONDS = 1.0  # after a connection could not be accepted
RELEASE_AFTER = 500  # closed connections after which freed memory is returned to the operating system
RELEASE_AFTER_BYTES = 64 * 1024 * 1024  # received on closed connections, likewise


class Identity(Protocol):
    """What the server proves itself with at present; without a context it serves plain HTTP."""

    @property
    def context(self) -> ssl.SSLContext | None: ...

    async def refresh(self) -> bool:
        """Look again, and return whether there is a new context."""
        ...


class FixedIdentity:
    """An identity that does not change."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context

    async def refresh(self) -> bool:
        return False


class HttpServer:
    """Serves on a listening socket while it `run`s, and closes it at the end."""

    def __init__(
        self, service: Service, listener: socket.socket, identity: Identity, limits: Limits | None = None
    ) -> None:
        self._service = service
        self._listener = listener
        self._identity = identity
        self._limits = limits or Limits()
        self._config = uvicorn.Config(
            Application(service),
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=self._limits.idle_seconds,
        )
        self._config.load()
        self._state = ServerState()
        self._set_date()
        self._open: dict[Connection, asyncio.Task[None]] = {}  # with their handshakes; the oldest first
        self._turns = SharedTurns()
        self._closed = self._closed_bytes = 0
        self.port: int = listener.getsockname()[1]

    @property
    def connections(self) -> set[Connection]:
        """Open connections whose TLS handshake is complete."""
        return self._state.connections  # type: ignore[return-value]

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._accept())
                group.create_task(self._refresh_now_and_then())
                group.create_task(self._sweep())
        finally:
            await self._close()

    def close(self) -> None:
        """Stop listening, whether it ran or not."""
        self._listener.close()

    # ---- connections

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # too many open files, or the client is gone again
                log.warning("cannot accept a connection: %s", error.strerror)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if self._make_room():
                connection = Connection(
                    self._config, self._state, self._limits, self._service.error, self._lost, self._turns
                )
                self._open[connection] = loop.create_task(self._shake_hands(accepted, connection))
            else:
                accepted.close()
            await asyncio.sleep(0)  # however many are in line, others have their turn

    def _make_room(self) -> bool:
        """Return whether there is room for one more. The oldest idle connection is dropped for it, or else
        the oldest that has not completed its handshake."""
        if len(self._open) < self._limits.connections:
            return True
        for connection in self._open:
            if connection.idle:
                connection.transport.abort()
                self._lost(connection)
                return True
        for connection, handshake in self._open.items():
            if not connection.is_made:
                handshake.cancel()
                self._lost(connection)
                return True
        return False

    async def _shake_hands(self, accepted: socket.socket, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        context = self._identity.context
        tls: dict[str, Any] = {}
        if context is not None:
            tls = {
                "ssl": context,
                "ssl_handshake_timeout": self._limits.handshake_seconds,
                "ssl_shutdown_timeout": self._limits.send_seconds,
            }
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(lambda: connection, accepted, **tls)
        except OSError as error:  # not TLS, no common version or suite, or gone
            self._lost(connection)
            log.log(logging.INFO - 4, "TLS handshake failed: %s", error)
            return
        if context is not self._identity.context:  # replaced meanwhile
            connection.shutdown()

    def _lost(self, connection: Connection) -> None:
        if self._open.pop(connection, None) is not None:
            self._closed += 1
            self._closed_bytes += connection.received

    # ---- over time

    async def _sweep(self) -> None:
        """Drop slow clients, keep the Date header current, and return memory after many connections."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._limits.sweep_seconds)
            self._set_date()
            now = loop.time()
            for connection in tuple(self.connections):
                connection.check_time(now)
            if self._closed >= RELEASE_AFTER or self._closed_bytes >= RELEASE_AFTER_BYTES:
                self._closed = self._closed_bytes = 0
                await asyncio.to_thread(release_memory)

    def _set_date(self) -> None:
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]

    async def _refresh_now_and_then(self) -> None:
        while True:
            try:
                await self.refresh()
            except Exception:  # what is in use stays in use
                log.exception("refreshing certificates failed")
            await asyncio.sleep(REFRESH_SECONDS)

    async def refresh(self) -> None:
        """Look at certificates and authorities again. If they changed, clients have to reconnect."""
        if await self._identity.refresh():
            log.info("serving with new certificates")
            for connection in tuple(self.connections):
                connection.shutdown()

    async def _close(self) -> None:
        """Stop listening, finish answers in progress within the grace period, and drop all connections."""
        self._listener.close()
        answering = [each for each in self.connections if not each.idle or _is_sending(each)]
        for connection, handshake in tuple(self._open.items()):
            if not connection.is_made:
                handshake.cancel()
            else:
                connection.shutdown()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.grace_seconds
        while not self.connections.isdisjoint(answering) and loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in tuple(self.connections):
            connection.transport.abort()
        for task in self._state.tasks:
            task.cancel()
        await asyncio.sleep(0)  # aborted transports close their sockets in the next turn of the loop


def _is_sending(connection: Connection) -> bool:
    """Return whether a part of an answer has not been sent yet."""
    return connection.transport.get_write_buffer_size() > 0
