"""Time that passes only when a test says so."""

from __future__ import annotations

from mooring.client.virtual_time import START as START


class VirtualClock:
    """A clock to hand to a scheduler: calling it gives the seconds since the epoch."""

    def __init__(self, start: float = START) -> None:
        self._now = start

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let this many seconds pass."""
        self.set(self._now + seconds)

    def set(self, now: float) -> None:
        """Make it this late; time does not run backwards."""
        if now < self._now:
            raise ValueError(f"a clock at {self._now} cannot be set back to {now}")
        self._now = now
