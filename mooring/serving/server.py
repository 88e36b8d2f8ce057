"""EndpointServer: HTTPS, or plain HTTP, on an event loop that is somebody else's.

uvicorn's protocol speaks HTTP; connections are accepted here, so that each gets the certificate that is in
force at that moment, and so that there are never too many of them.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import uvicorn
from uvicorn.server import ServerState

from mooring.serving.connection import KEEP_ALIVE, Connection
from mooring.serving.settings import EndpointError, EndpointSettings, parse_address

log = logging.getLogger("mooring.serving")

MOST_CONNECTIONS = 256  # those whose handshake is not over included
HANDSHAKE_WITHIN = 10.0  # seconds
GOODBYE_WITHIN = 5.0  # seconds for a client to end TLS in order
REFRESH = 60.0  # seconds after which certificates and authorities are looked at again
GRACE = 1.0  # seconds for answers under way when the server ends, unless said otherwise
PAUSE = 1.0  # seconds when no connection can be accepted
BACKLOG = 128


class Identity(Protocol):
    """How the server proves itself at present; without a context it speaks plain HTTP."""

    @property
    def context(self) -> ssl.SSLContext | None: ...

    async def refresh(self) -> bool:
        """Look again; whether there is a new context."""
        ...


class EndpointServer:
    """Listens as soon as it is made, and serves while it `run`s. Raises EndpointError.

    `grace` is how many seconds answers under way have to arrive when the server ends.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        app: Callable[..., Awaitable[None]],
        identity: Identity,
        grace: float = GRACE,
    ) -> None:
        self._identity = identity
        self._grace = grace
        self._config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        self._config.load()
        self._state = ServerState()
        self._handshakes: dict[asyncio.Task[None], Connection] = {}  # the oldest first
        self._listener = listen(settings.bind_address, settings.secure_port)
        self.port: int = self._listener.getsockname()[1]

    @property
    def connections(self) -> set[Connection]:
        return self._state.connections  # type: ignore[return-value]

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._accept())
                group.create_task(self._keep_fresh())
        finally:
            await self._close()

    def close(self) -> None:
        """Do not listen any more, whether it ran or not."""
        self._listener.close()

    # ---- connections

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # too many files are open, or the client was gone again
                log.warning("cannot accept a connection: %s", error.strerror)
                await asyncio.sleep(PAUSE)
                continue
            if self._make_room():
                connection = Connection(self._config, self._state)
                task = loop.create_task(self._shake_hands(accepted, connection))
                self._handshakes[task] = connection
                task.add_done_callback(self._handshakes.pop)
            else:
                accepted.close()
            await asyncio.sleep(0)  # however many stand in line, others have their turn

    def _make_room(self) -> bool:
        """Whether there is room for one more; the oldest that only sits there makes way."""
        # A handshake is over a moment before its task is.
        handshakes = [task for task, made in self._handshakes.items() if made not in self.connections]
        if len(handshakes) + len(self.connections) < MOST_CONNECTIONS:
            return True
        idle = [each for each in self.connections if each.idle]
        if idle:
            min(idle, key=lambda connection: connection.since).transport.abort()
        elif handshakes:
            handshakes[0].cancel()
        else:
            return False
        return True

    async def _shake_hands(self, accepted: socket.socket, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = self._identity.context
        tls: dict[str, Any] = {}
        if context is not None:
            tls = {
                "ssl": context,
                "ssl_handshake_timeout": HANDSHAKE_WITHIN,
                "ssl_shutdown_timeout": GOODBYE_WITHIN,
            }
        try:
            await loop.connect_accepted_socket(lambda: connection, accepted, **tls)
        except OSError as error:  # no TLS, none that we speak, or gone
            log.log(logging.INFO - 4, "no TLS with a client: %s", error)
            return
        if context is not self._identity.context:  # a new one since it began
            connection.shutdown()

    # ---- over time

    async def _keep_fresh(self) -> None:
        while True:
            try:
                await self.refresh()
            except Exception as bug:  # what is in force stays in force
                log.error("looking at certificates again", exc_info=bug)
            await asyncio.sleep(REFRESH)

    async def refresh(self) -> None:
        """Look at certificates and authorities again. Who was believed by the old ones has to come anew."""
        if await self._identity.refresh():
            log.info("serving with new certificates")
            for connection in tuple(self.connections):
                connection.shutdown()

    async def _close(self) -> None:
        self._listener.close()
        for task in tuple(self._handshakes):
            task.cancel()
        for connection in tuple(self.connections):
            connection.shutdown()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._grace
        if self._state.tasks:
            await asyncio.wait(tuple(self._state.tasks), timeout=self._grace)
        while any(map(_sending, self.connections)) and loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in tuple(self.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # aborted transports close their sockets in the next turn of the loop


def _sending(connection: Connection) -> bool:
    """Whether a part of an answer has not left yet."""
    return connection.transport.get_write_buffer_size() > 0


def listen(address: str, port: int) -> socket.socket:
    """A socket on an address; an unspecified one stands for all, of both families. Raises EndpointError."""
    everywhere = parse_address(address).is_unspecified
    try:
        listener = _everywhere(port) if everywhere else _on(address, port)
    except OSError as error:
        raise EndpointError(
            f"cannot listen on {address} port {port}: {os.strerror(error.errno or 0)}; "
            "choose others with --bind-address and --secure-port"
        ) from None
    listener.setblocking(False)
    return listener


def _everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
            )
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:  # IPv6 is compiled in, and switched off
                raise
    return socket.create_server(("0.0.0.0", port), backlog=BACKLOG)


def _on(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=BACKLOG)
