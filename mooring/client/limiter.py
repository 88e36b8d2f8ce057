"""The client's own limit on requests: kube-scheduler's `clientConnection.qps` and `.burst`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class TokenBucket:
    """Token bucket: `burst` requests at once, `qps` per second on average; others wait in order.

    As in client-go, a negative qps means no limit, and zeros mean 5 and 10.
    """

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._qps = qps or 5.0
        self._burst = self._tokens = float(burst or 10)
        self._clock = clock
        self._at = clock()

    def reserve(self) -> float:
        """Take a token; return the seconds to wait before it may be used."""
        if self._qps < 0:
            return 0.0
        self._refill()
        self._tokens -= 1.0
        return -self._tokens / self._qps if self._tokens < 0 else 0.0

    def try_take(self, count: int) -> bool:
        """Take tokens if that many are left; never wait."""
        self._refill()
        if self._tokens < count:
            return False
        self._tokens -= count
        return True

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(now - self._at, 0.0) * self._qps)
        self._at = now

    async def wait(self) -> None:
        """Return when one more request may be sent. A cancelled waiter returns its token."""
        delay = self.reserve()
        if delay > 0:
            try:
                await asyncio.sleep(delay)
            except asyncio.CancelledError:
                self._tokens += 1.0
                raise
