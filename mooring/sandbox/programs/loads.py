"""What containers use because clients have asked their servers to: CPU and memory, for some seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

WINDOW: Final = 15.0  # seconds that one measurement of CPU covers
_MOST: Final = 1000  # loads of one container


class Load(NamedTuple):
    """Nano-units of a resource, from one time to another."""

    resource: str
    amount: int
    begin: float
    end: float


class Loads:
    """Loads by the uid of a pod and the name of a container."""

    def __init__(self) -> None:
        self._loads: dict[tuple[str, str], deque[Load]] = {}

    def add(self, uid: str, container: str, load: Load) -> None:
        self._loads.setdefault((uid, container), deque(maxlen=_MOST)).append(load)

    def measure(self, uid: str, container: str, resource: str, now: float) -> int:
        """Return the current memory usage, or the mean CPU usage over the last seconds, in nano-units."""
        loads = self._loads.get((uid, container))
        if loads is None:
            return 0
        while loads and loads[0].end < now - WINDOW:
            loads.popleft()
        same = [load for load in loads if load.resource == resource]
        if resource == "memory":
            return sum(load.amount for load in same if load.begin <= now < load.end)
        return round(sum(load.amount * _overlap(load, now) for load in same) / WINDOW)

    def forget(self, uid: str, containers: Iterable[str]) -> None:
        """Forget a pod."""
        for container in containers:
            self._loads.pop((uid, container), None)


def _overlap(load: Load, now: float) -> float:
    """Return for how many seconds of the window a load lasted."""
    return max(min(load.end, now) - max(load.begin, now - WINDOW), 0.0)
