"""Virtual time for tests, with an alarm: a test that waits for something that cannot happen fails."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from mooring.client.virtual_time import JumpingSelector, VirtualTimeLoop

T = TypeVar("T")


class AlarmingSelector(JumpingSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is None else timeout)
        if timeout is None and not ready:
            raise RuntimeError("every task waits, and there is no timer")
        return ready


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, in virtual time."""
    with asyncio.Runner(loop_factory=partial(VirtualTimeLoop, 1000.0, AlarmingSelector)) as runner:
        return runner.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()
