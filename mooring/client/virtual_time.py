"""An event loop on virtual time: whenever every task waits, time jumps to the next timer.

Code that takes its time from the loop, or from `loop.time` passed as a clock, runs through an hour in
milliseconds. Time stands still while work runs in threads.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Args = TypeVarTuple("Args")

START = 1_893_456_000.0  # 2030-01-01T00:00:00Z: a date not mistaken for today
TURNS_ALONE = 64
RESOLUTION = 1e-6  # seconds; the least by which two such dates differ is about a quarter of it


class JumpingSelector(selectors.DefaultSelector):
    """Polls sockets and pipes like any selector, but advances the time instead of sleeping."""

    now = START
    in_threads = 0
    _alone = 0  # turns without a look at the loop's own pipe, which only threads and signals write to

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or self.in_threads:
            return super().select(None if timeout is None or timeout > 0 else timeout)
        if len(self.get_map()) <= 1 and self._alone < TURNS_ALONE:
            self._alone += 1
            ready = []
        else:
            self._alone = 0
            ready = super().select(0)
        if not ready and timeout > 0:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time` is in seconds since the epoch, so that it serves as the cluster's clock, too."""

    def __init__(self, start: float = START, selector: type[JumpingSelector] = JumpingSelector) -> None:
        self._jumping = selector()
        self._jumping.now = start
        super().__init__(self._jumping)
        self._clock_resolution = RESOLUTION  # the loop runs what is due before `time() + _clock_resolution`

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Args]], T], *args: *Args
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._jumping.in_threads += 1
        future.add_done_callback(self._back_from_thread)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait until the threads end. A timeout would expire at once, since time jumps to it."""
        await super().shutdown_default_executor()

    def _back_from_thread(self, _: asyncio.Future[Any]) -> None:
        self._jumping.in_threads -= 1
