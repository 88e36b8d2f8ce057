"""LoopThread: an event loop on a thread of its own, for what has to run while a test does something else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop that runs until `close`. Its methods are for other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mooring", daemon=True)
        self._thread.start()

    def time(self) -> float:
        """Return the time in seconds since the epoch, as VirtualTimeLoop does."""
        return time.time()

    def run_until_complete(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop's thread, between the steps of its tasks."""

        async def call() -> T:
            return function()

        return self.run_until_complete(call())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
