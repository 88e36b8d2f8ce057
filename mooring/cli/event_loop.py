"""The event loop of a command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from mooring.client.parallel import DaemonThreads

T = TypeVar("T")
P = ParamSpec("P")


def fastest_loop() -> Any:
    """Return uvloop's loop factory if the `fast` extra is installed; it halves the CPU cost of a request."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


class _Workers(ThreadPoolExecutor):
    """Threads for `asyncio.to_thread` that the end of the process does not wait for: a thread cannot be
    interrupted, and a signal must end the process at once. asyncio accepts a ThreadPoolExecutor only; this
    one never starts threads of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._daemons = DaemonThreads(min(32, (os.cpu_count() or 1) + 4), "mooring-worker")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._daemons.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._daemons.shutdown()


def run_until_signal(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that ends by a signal, without waiting for threads that are at work then."""
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.get_loop().set_default_executor(_Workers())
        return runner.run(main)
