"""What will happen in a run, by time."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heappop, heappush
from math import inf


class Order(IntEnum):
    """What comes first among the events of one instant."""

    DEPARTURE = 0
    NODE = 1
    CHANGE = 2
    ARRIVAL = 3
    TIMER = 4


class Agenda:
    """Work that is due at a time. What is due at the same time is done by its order, then as it was added."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, int, Callable[[], None]]] = []  # a heap
        self._cancelled: set[int] = set()
        self._last = 0

    def add(self, time: float, order: Order, work: Callable[[], None]) -> int:
        """Add work; return its number."""
        self._last += 1
        heappush(self._entries, (time, order, self._last, work))
        return self._last

    def cancel(self, number: int) -> None:
        """Drop work that was not done yet."""
        self._cancelled.add(number)

    def next_time(self) -> float:
        """Return when work is due; inf if there is none."""
        entries, cancelled = self._entries, self._cancelled
        while entries and entries[0][2] in cancelled:
            cancelled.discard(heappop(entries)[2])
        return entries[0][0] if entries else inf

    def do(self, now: float, before: int) -> None:
        """Do what is due and comes before an order."""
        entries, cancelled = self._entries, self._cancelled
        while entries and entries[0][0] <= now and entries[0][1] < before:
            _, _, number, work = heappop(entries)
            if number in cancelled:
                cancelled.discard(number)
            else:
                work()
