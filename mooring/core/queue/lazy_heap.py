"""A heap of queued pods from which any pod can be taken."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from mooring.core.queue.queued_pod import QueuedPodInfo

_SLACK = 64  # stale entries that are not worth a rebuild


class Tickets:
    """Numbers that order equal keys by arrival; one source for all heaps of a queue."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0


class LazyHeap:
    """Pods by key; equal keys first come, first served.

    To take a pod from the middle only its ticket is withdrawn, and its entry is skipped when it comes up.
    A pod has one ticket at a time, so it can be in one heap only, once.
    """

    __slots__ = ("_entries", "_tickets", "size")

    def __init__(self, tickets: Tickets) -> None:
        self._entries: list[tuple[Any, int, QueuedPodInfo]] = []
        self._tickets = tickets
        self.size = 0

    def push(self, key: Any, queued: QueuedPodInfo) -> None:
        tickets = self._tickets
        tickets.last = queued.ticket = ticket = tickets.last + 1
        queued.heap_key = key
        heapq.heappush(self._entries, (key, ticket, queued))
        self.size += 1

    def pop(self) -> QueuedPodInfo | None:
        """Take the first pod."""
        entries = self._entries
        while entries:
            _, ticket, queued = heapq.heappop(entries)
            if queued.ticket == ticket:
                queued.ticket = 0
                self.size -= 1
                return queued
        return None

    def peek(self) -> QueuedPodInfo | None:
        """The first pod, which stays."""
        entries = self._entries
        while entries:
            _, ticket, queued = entries[0]
            if queued.ticket == ticket:
                return queued
            heapq.heappop(entries)
        return None

    def discard(self, queued: QueuedPodInfo) -> None:
        """Take a pod out that is in this heap."""
        queued.ticket = 0
        self.size -= 1
        if len(self._entries) > 2 * self.size + _SLACK:
            self._entries = [entry for entry in self._entries if entry[2].ticket == entry[1]]
            heapq.heapify(self._entries)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """The pods in no particular order."""
        return (queued for _, ticket, queued in self._entries if queued.ticket == ticket)
