"""The core in a thread of its own, for schedulers whose attempts wait for extenders.

The core is not made for several threads. While it is at work in one, what happens to it on the event loop is
held back, in order, and made up for right after.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from mooring.api.errors import ObjectError

log = logging.getLogger("mooring.scheduler")

T = TypeVar("T")


class Aside:
    """One thread for the core; `run` has work done there, `do` changes the core when it is at rest."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mooring-core")
        self._busy = False
        self._held: deque[Callable[[], None]] = deque()
        self._turns: deque[asyncio.Future[None]] = deque()

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` on the core's thread and return its result; callers take turns. It cannot be
        interrupted: if the caller is cancelled, the next one still waits for it to end."""
        if self._busy:
            turn = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._next()
                raise
        self._busy = True
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def do(self, change: Callable[[], None]) -> None:
        """Change the core now, or as soon as it is at rest."""
        if self._busy:
            self._held.append(change)
        else:
            change()

    def close(self) -> None:
        """Take no more work; what is under way goes on without being waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._busy = False
        if not future.cancelled():
            future.exception()  # is the caller's, who may be gone
        while self._held:
            change = self._held.popleft()
            try:
                change()
            except ObjectError as error:
                log.warning("%s; skipped", error)
            except Exception as bug:
                log.error("cannot apply a deferred change", exc_info=bug)
        self._next()

    def _next(self) -> None:
        """Admit the next waiting caller."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                self._busy = True
                turn.set_result(None)
                return
        self._busy = False
