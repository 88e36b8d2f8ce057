"""Ending a process by a signal, also one whose event loop is blocked."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

log = logging.getLogger("mooring.process")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
PATIENCE: Final = 5.0
"""Seconds within which the event loop has to notice a signal."""


@contextmanager
def end_by_signals(end: Callable[[str], object]) -> Iterator[None]:
    """Have the running loop call `end` with the name of a signal. A loop that does not get to it, because a
    plugin blocks for example, ends with the process."""
    loop = asyncio.get_running_loop()
    for sign in SIGNALS:
        loop.add_signal_handler(sign, end, sign.name)
        signal.signal(sign, _watching(loop, signal.getsignal(sign)))
        signal.siginterrupt(sign, False)  # as the loop has it, too
    try:
        yield
    finally:
        for sign in SIGNALS:
            loop.remove_signal_handler(sign)


def _watching(loop: asyncio.AbstractEventLoop, wake: Any) -> Callable[[int, FrameType | None], None]:
    """Return a handler that wakes the loop as its own does, and waits in a thread for it to respond."""

    def handle(sign: int, frame: FrameType | None) -> None:
        wake(sign, frame)
        threading.Thread(target=_expect_response, args=(loop, sign), daemon=True).start()

    return handle


def _expect_response(loop: asyncio.AbstractEventLoop, sign: int) -> None:
    has_responded = threading.Event()
    try:
        loop.call_soon_threadsafe(has_responded.set)
    except RuntimeError:  # the loop is closed
        return
    if not has_responded.wait(PATIENCE) and loop.is_running():
        log.error("the event loop is blocked; exiting without it")
        os._exit(128 + sign)
