"""uvicorn inside somebody else's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import uvicorn

from mooring.sandbox.apiserver.http.app import App
from mooring.sandbox.apiserver.http.protocol import BoundedProtocol

MOST_CONNECTIONS = 20_000
_KEEP_ALIVE = 120  # longer than clients keep idle connections, so that they are the ones to close them
_GRACE = 5
_PATIENCE = 0.5  # seconds for clients to say goodbye
_TICKS = 10  # of uvicorn's tenths of a second, between looking for clients that are too slow


def _most_connections() -> int:
    """As many as the process may have open files, but for some that others need."""
    try:
        import resource
    except ImportError:  # on systems that have no such limit
        return MOST_CONNECTIONS
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, files - files // 8)


class _BoundedSocket(socket.socket):
    """Listens, and turns connections away while there are enough: before anything is spent on them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.most = _most_connections()
        self.open = 0

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = super().accept()
        if self.open >= self.most:
            accepted.close()
            raise ConnectionAbortedError(f"there are {self.most} connections already")
        return _Accepted(self, accepted), address


class _Accepted(socket.socket):
    """A connection that is counted until it is closed."""

    def __init__(self, listener: _BoundedSocket, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self._listener: _BoundedSocket | None = listener
        listener.open += 1

    def close(self) -> None:
        if self._listener is not None:
            self._listener.open -= 1
            self._listener = None
        super().close()


class _Server(uvicorn.Server):
    """uvicorn, which leaves signals to the process, tells when it listens, and does not wait for the slow."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.end_if_too_slow(now)
        return await super().on_tick(counter)


class Listener:
    """Serves an app on a socket of its own until stopped."""

    def __init__(self, app: App, host: str, port: int, certificate: Path | None, key: Path | None) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # with the protocol named, asyncio switches Nagle's algorithm off, which would hold answers back
        self._socket = _BoundedSocket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_GRACE,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._task, listening}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            listening.cancel()
            self._task.result()
            raise RuntimeError("the HTTP server ended before it listened")

    async def stop(self) -> None:
        """Finish what is being answered, then close every connection, also of clients that do not care."""
        if self._task is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._task}, timeout=_PATIENCE)
        for connection in tuple(self._server.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await self._task
        await asyncio.sleep(0)  # aborted transports close their sockets in the next turn of the loop
