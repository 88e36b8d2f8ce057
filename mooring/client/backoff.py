"""How long to wait before trying again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable


class Backoff:
    """Waits that double up to a limit, each stretched by chance so that clients do not come back in step.

    The figures are client-go's for lists and watches: 0.8 s doubling to 30 s, each stretched to at most
    twice its length, and from the beginning again once nothing has gone wrong for two minutes.
    """

    __slots__ = ("_clock", "_first", "_last_failure", "_limit", "_next", "_random", "_reset_after")

    def __init__(
        self,
        first: float = 0.8,
        limit: float = 30.0,
        *,
        reset_after: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first = first
        self._limit = limit
        self._reset_after = reset_after
        self._clock = clock
        self._random = chance
        self._next = first
        self._last_failure = clock()

    def wait(self) -> float:
        """Seconds to wait after one more failure."""
        now = self._clock()
        if now - self._last_failure > self._reset_after:
            self._next = self._first
        self._last_failure = now
        base, self._next = self._next, min(self._next * 2, self._limit)
        return base * (1 + self._random())
