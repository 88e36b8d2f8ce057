"""Turns of the loop that all connections share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_SECONDS: Final = 0.005


class SharedTurns:
    """Calls what waits in order, in each turn of the loop as much as takes some milliseconds."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_running = False

    def add(self, act: Callable[[], object]) -> None:
        if not self._is_running:
            self._is_running = True
            asyncio.get_running_loop().call_soon(self._run)
        self._waiting.append(act)

    def _run(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + _SECONDS
        try:
            while self._waiting and loop.time() <= end:
                self._waiting.popleft()()
        finally:
            self._is_running = bool(self._waiting)
            if self._is_running:
                loop.call_soon(self._run)
