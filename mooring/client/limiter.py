"""The client's own limit on requests: kube-scheduler's `clientConnection.qps` and `.burst`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class TokenBucket:
    """Token bucket: `burst` requests at once, `qps` per second on average; others wait in order.

    As with client-go, a negative qps means no limit, and zeros mean 5 and 10.
    """

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._qps = qps or 5.0
        self._burst = self._tokens = float(burst or 10)
        self._clock = clock
        self._at = clock()

    def reserve(self) -> float:
        """Take a token; how many seconds to wait before it may be used."""
        if self._qps < 0:
            return 0.0
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps) - 1.0
        self._at = now
        return -self._tokens / self._qps if self._tokens < 0 else 0.0

    async def wait(self) -> None:
        """Return when one more request may be sent. A waiter that gives up gives its token back."""
        delay = self.reserve()
        if delay > 0:
            try:
                await asyncio.sleep(delay)
            except asyncio.CancelledError:
                self._tokens += 1.0
                raise
