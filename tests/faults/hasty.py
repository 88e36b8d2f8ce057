"""An event loop on real time that runs fast: the core has its thread, as in a process, and attempts that take
long meet leases that end, pods that are deleted and processes that are killed."""

from __future__ import annotations

import asyncio
import selectors
import time

from mooring.client.virtual_time import RESOLUTION, START

SPEED = 20.0  # seconds of the loop in one of the machine's
LONGEST = 1.0  # seconds of the machine that a plugin may take: longer than a lease lasts


class _Selector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else timeout / SPEED)


class HastyLoop(asyncio.SelectorEventLoop):
    """`time` is in seconds since the epoch, as on virtual time."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        super().__init__(_Selector())
        self._clock_resolution = RESOLUTION

    def time(self) -> float:
        return START + (time.monotonic() - self._began) * SPEED
