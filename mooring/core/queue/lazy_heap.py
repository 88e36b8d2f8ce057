"""A priority queue of queued pods from which any pod can be taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from mooring.core.queue.queued_pod import QueuedPodInfo

_SLACK = 64  # stale entries that are not worth a rebuild

_Entry = tuple[Any, int, QueuedPodInfo]


class Tickets:
    """Numbers that order equal keys by arrival; one source for all heaps of a queue."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0


class LazyHeap:
    """Pods by key; equal keys first come, first served.

    Pods mostly arrive in the order in which they leave. Those that do form a line, where both ends cost
    the same whatever its length; only those that jump the line go through a heap.

    To take a pod from the middle only its ticket is withdrawn, and its entry is skipped when it comes up.
    A pod has one ticket at a time, so it can be in one heap only, once.
    """

    __slots__ = ("_heap", "_line", "_tickets", "size")

    def __init__(self, tickets: Tickets) -> None:
        self._heap: list[_Entry] = []
        self._line: deque[_Entry] = deque()  # sorted
        self._tickets = tickets
        self.size = 0

    def push(self, key: Any, queued: QueuedPodInfo) -> None:
        tickets = self._tickets
        tickets.last = queued.ticket = ticket = tickets.last + 1
        queued.heap_key = key
        entry = (key, ticket, queued)
        line = self._line
        if not line or line[-1] < entry:
            line.append(entry)
        else:
            heappush(self._heap, entry)
        self.size += 1

    def pop(self) -> QueuedPodInfo | None:
        """Take the first pod."""
        heap, line = self._heap, self._line
        while heap or line:
            _, ticket, queued = line.popleft() if not heap or (line and line[0] < heap[0]) else heappop(heap)
            if queued.ticket == ticket:
                queued.ticket = 0
                self.size -= 1
                return queued
        return None

    def peek(self) -> QueuedPodInfo | None:
        """The first pod, which stays."""
        heap, line = self._heap, self._line
        while heap and heap[0][2].ticket != heap[0][1]:
            heappop(heap)
        while line and line[0][2].ticket != line[0][1]:
            line.popleft()
        if not heap and not line:
            return None
        return (line[0] if not heap or (line and line[0] < heap[0]) else heap[0])[2]

    def discard(self, queued: QueuedPodInfo) -> None:
        """Take a pod out that is in this heap."""
        queued.ticket = 0
        self.size -= 1
        if len(self._heap) + len(self._line) > 2 * self.size + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].ticket == entry[1]]
            self._line = deque(entry for entry in self._line if entry[2].ticket == entry[1])
            heapify(self._heap)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """The pods in no particular order."""
        for entries in (self._heap, self._line):
            yield from (queued for _, ticket, queued in entries if queued.ticket == ticket)
