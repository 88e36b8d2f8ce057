"""Turns: users share what is scarce, however many requests each of them sends."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """A semaphore with `most` places, of which each user has at most `each`. Users whose requests wait get a
    place in turn."""

    def __init__(self, most: int, each: int) -> None:
        self._free = most
        self._each = each
        self._held = Counter[str]()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By user; the user that is next comes first."""

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Hold a place of a user."""
        await self._acquire(user)
        try:
            yield
        finally:
            self._release(user)

    async def _acquire(self, user: str) -> None:
        if self._may_enter(user):
            self._enter(user)
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._release(user)
            raise

    def _may_enter(self, user: str) -> bool:
        return self._free > 0 and self._held[user] < self._each

    def _enter(self, user: str) -> None:
        self._free -= 1
        self._held[user] += 1

    def _release(self, user: str) -> None:
        self._free += 1
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]
        while (following := next(filter(self._may_enter, self._waiting), None)) is not None:
            self._admit(following)

    def _admit(self, user: str) -> None:
        """Give a place to the first waiting request of a user, and move the user to the end."""
        places = self._waiting.pop(user)
        place = places.popleft()
        if places:
            self._waiting[user] = places
        if not place.cancelled():
            self._enter(user)
            place.set_result(None)
