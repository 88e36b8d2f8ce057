"""Requests to one server over kept connections."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from mooring.client.api_errors import Unreachable
from mooring.client.http.connection import Connection, Response
from mooring.client.http.failures import describe
from mooring.client.http.lines import LineConnection
from mooring.client.http.route import Route

_SWEEP_EVERY = 0.25  # seconds between looks at deadlines: one timer for all instead of one per request
_IDLE_FOR = 60.0  # shorter than kube-apiserver's 90 s, so that it does not close one as a request leaves
_CONNECT_IN = 30.0
_CLOSE_IN = 1.0

Made = TypeVar("Made", bound=Connection)


class HttpClient:
    """At most `limit` connections for requests, first come first served; each watch has one of its own.

    `tls` is for new connections (None: plain HTTP); those made with another context are not used again.
    Every failure is raised as Unreachable, whose `sent` says whether the server may have seen the request.
    """

    def __init__(self, server: str, route: Route, limit: int) -> None:
        self.tls: ssl.SSLContext | None = None
        self._server = server
        self._route = route
        self._free = limit
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = asyncio.Event()

    async def request(
        self,
        method: str,
        path: str,
        head: bytes,
        body: bytes,
        timeout: float,
        may_send: Callable[[], bool] | None = None,
    ) -> Response:
        """Send one request; `head` has its headers. A kept connection that turns out to be dead is replaced
        by a new one, once, where it is no harm if the server sees the request twice. `may_send` is asked when
        there is a connection: the request may have waited for it."""
        data = b"%b %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (
            method.encode("ascii"), path.encode("ascii"), head, len(body), body,
        )  # fmt: skip
        while True:
            connection = await self._acquire(method, path)
            kept = connection.idle_since > 0
            try:
                if may_send is not None and not may_send():
                    cause = "not sent: this client may no longer write"
                    raise Unreachable(self._server, cause, request=f"{method} {path}", sent=False)
                await connection.send(data, asyncio.get_running_loop().time() + timeout)
                return connection.response()
            except (OSError, ValueError) as error:
                died = kept and not connection.answered and isinstance(error, ConnectionResetError)
                if not died or method != "GET":
                    raise self._unreachable(error, method, path) from error
                self._drop_idle()  # likely as dead as this one
            finally:
                self._release(connection)

    async def stream(self, path: str, head: bytes, timeout: float, duration: float) -> LineConnection:
        """GET an answer that is read by `lines`, or whole where it is not `streaming`; then `end` it.

        It has to begin within `timeout` seconds and to end within `duration`.
        """
        connection = await self._connect(LineConnection, "GET", path)
        self._watch_over(connection)
        now = asyncio.get_running_loop().time()
        request = b"GET %b HTTP/1.1\r\n%b\r\n" % (path.encode("ascii"), head)
        try:
            await connection.send(request, now + timeout)
        except BaseException as error:
            self.end(connection)
            if isinstance(error, OSError | ValueError):
                raise self._unreachable(error, "GET", path) from error
            raise
        connection.deadline = now + duration
        return connection

    async def lines(self, connection: LineConnection, path: str) -> list[bytes]:
        """The next lines of a stream; none at its end."""
        try:
            return await connection.lines()
        except (OSError, ValueError) as error:
            raise self._unreachable(error, "GET", path) from error

    def end(self, connection: LineConnection) -> None:
        self._busy.discard(connection)
        connection.close()

    async def close(self) -> None:
        """Close all connections; requests under way fail, and so does every later one."""
        self._closed.set()
        if self._sweeper is not None:
            self._sweeper.cancel()
        connections = [*self._busy, *self._idle]
        for connection in connections:
            connection.close()
        self._idle.clear()
        if connections:
            await asyncio.wait([connection.lost for connection in connections], timeout=_CLOSE_IN)

    # ---- connections

    async def _acquire(self, method: str, path: str) -> Connection:
        """A connection to use, kept or new; `_release` has to be called for it."""
        if self._free:
            self._free -= 1
        else:
            await self._wait_for_turn()
        try:
            connection = self._kept() or await self._connect(Connection, method, path)
        except BaseException:
            self._pass_turn()
            raise
        self._watch_over(connection)
        return connection

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.tls is self.tls:
                return connection
            connection.close()
        return None

    async def _connect(self, make: type[Made], method: str, path: str) -> Made:
        tls = self.tls
        try:
            if self._closed.is_set():
                raise ConnectionAbortedError("closed by the client")
            async with asyncio.timeout(_CONNECT_IN) as limit:
                connection = await self._route.open(make, tls)
            if self._closed.is_set():
                connection.close()
                raise ConnectionAbortedError("closed by the client")
        except TimeoutError as error:
            cause = TimeoutError(f"no connection within {_CONNECT_IN:.0f} s") if limit.expired() else error
            raise self._unreachable(cause, method, path, sent=False) from error
        except (OSError, ValueError) as error:
            raise self._unreachable(error, method, path, sent=False) from error
        connection.tls = tls
        return connection

    def _release(self, connection: Connection) -> None:
        self._busy.discard(connection)
        if connection.usable and not self._closed.is_set():
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()
        self._pass_turn()

    async def _wait_for_turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_turn()
            raise

    def _pass_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _drop_idle(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _watch_over(self, connection: Connection) -> None:
        self._busy.add(connection)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_EVERY, self._sweep)

    def _sweep(self) -> None:
        """End what takes too long, and close what was idle for long."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [c for c in self._busy if c.deadline < now]:
            connection.expire()
        old = [c for c in self._idle if not c.usable or c.idle_since < now - _IDLE_FOR]
        for connection in old:
            self._idle.remove(connection)
            connection.close()
        self._sweeper = loop.call_later(_SWEEP_EVERY, self._sweep) if self._busy or self._idle else None

    def _unreachable(self, error: Exception, method: str, path: str, *, sent: bool = True) -> Unreachable:
        return Unreachable(self._server, describe(error), request=f"{method} {path}", sent=sent)
