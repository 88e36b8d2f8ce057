"""Clocks: one that ignores adjustments of the system's time, and one whose speed can change.

The time of a sandbox may run faster than the time of day, but timers of the event loop run by real time: code
that waits for a moment of such a clock asks `real_seconds` how long that takes at the present speed, and sets
its timers again when the speed changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def elapsed() -> float:
    """Seconds since some moment, also those for which the machine was asleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def steady_clock() -> Callable[[], float]:
    """Return a clock that begins with the system's time and ignores later adjustments of it."""
    start = time.time() - elapsed()
    return lambda: start + elapsed()


class ScaledClock:
    """Seconds since the epoch. It never goes back, so after a time at a higher speed it stays ahead."""

    def __init__(self, real: Callable[[], float]) -> None:
        self._real = real
        self._speed = 1.0
        self._from = (0.0, 0.0)  # a moment of the real clock, and of this one

    @property
    def speed(self) -> float:
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._from = (self._real(), self())
        self._speed = speed

    def __call__(self) -> float:
        real, scaled = self._from
        return scaled + (self._real() - real) * self._speed


def real_seconds(clock: Callable[[], float], seconds: float) -> float:
    """Return how long so many seconds of a clock take."""
    return seconds / clock.speed if isinstance(clock, ScaledClock) else seconds
