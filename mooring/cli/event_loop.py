"""The event loop of a command."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

_PREFIX = "mooring"  # of the names of threads
_GRACE = 0.1  # seconds, for threads that only have to notice that they are to end


def fastest_loop() -> Any:
    """Return uvloop's loop factory if the `fast` extra is installed; it halves the CPU cost of a request."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


class _Workers(ThreadPoolExecutor):
    """Threads for `asyncio.to_thread`. The end of the loop does not wait for them: a thread cannot be
    interrupted, and a signal must end the process at once."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)


def run_until_signal(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that ends by a signal. Threads that are at work are not waited for: the process must
    end with `end_process`."""
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.get_loop().set_default_executor(_Workers(thread_name_prefix=_PREFIX))
        return runner.run(main)


def end_process(code: int) -> NoReturn:
    """Exit, without waiting for threads that are at work."""
    if any(_is_at_work(thread) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _is_at_work(thread: threading.Thread) -> bool:
    """Whether a thread of ours does not end though it has been shut down."""
    if not thread.name.startswith(_PREFIX):
        return False
    thread.join(_GRACE)
    return thread.is_alive()
