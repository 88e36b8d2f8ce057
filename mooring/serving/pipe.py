"""The bytes of a connection after an upgrade to a protocol other than HTTP."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from mooring.serving.exchange import Exchange

_MOST_UNREAD: Final = 256 * 1024  # bytes after which nothing more is read from the client


class BytePipe:
    """One connection whose bytes another protocol reads."""

    def __init__(self, exchange: Exchange, head: bytes) -> None:
        """Answer a request with `head`, which accepts the upgrade."""
        self._parts: deque[bytes] = deque()
        self._unread = 0
        self._changed = asyncio.Event()
        self._closed = False
        self._connection = exchange.upgrade(head, self._take)

    @property
    def is_closed(self) -> bool:
        return self._closed

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes; None if the connection is closed, or after so many seconds without any."""
        try:
            async with asyncio.timeout(seconds):
                while not self._parts and not self._closed:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return None
        if not self._parts:
            return None
        part = self._parts.popleft()
        self._unread -= len(part)
        self._connection.pause(paused=self._unread > _MOST_UNREAD)
        return part

    async def send(self, data: bytes) -> None:
        """Send bytes once the client has read what was sent before, unless the connection is closed."""
        if not self._closed:
            await self._connection.send(data)

    def close(self) -> None:
        """Close the connection once everything is sent."""
        self._closed = True
        self._changed.set()
        self._connection.transport.close()

    def _take(self, data: bytes) -> None:
        if not data or self._closed:
            self._closed = True
        else:
            self._parts.append(data)
            self._unread += len(data)
            self._connection.pause(paused=self._unread > _MOST_UNREAD)
        self._changed.set()
