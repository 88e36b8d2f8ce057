"""Waking a task."""

from __future__ import annotations

import asyncio


class Wake:
    """Something that one task waits for, with a time limit, at little cost."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._due = False

    def set(self) -> None:
        self._due = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout: float | None = None) -> None:
        if not self._due:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = None if timeout is None else loop.call_later(timeout, self.set)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        self._due = False
