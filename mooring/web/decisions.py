"""Bounded list of recent decisions in the order in which they were made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mooring.api.times import format_time
from mooring.core.decision import Decision
from mooring.explain.text import why
from mooring.web.records import DecisionRow

KEPT = 5000
LONGEST_SUMMARY = 500  # characters in a row


class Entry(NamedTuple):
    seq: int
    at: float
    decision: Decision


class RecentDecisions:
    """The last decisions, numbered from 1."""

    def __init__(self, clock: Callable[[], float], kept: int = KEPT) -> None:
        self._clock = clock
        self._entries: deque[Entry] = deque(maxlen=kept)
        self.kept = kept
        self.last = 0

    def add(self, decision: Decision) -> None:
        self.last += 1
        self._entries.append(Entry(self.last, self._clock(), decision))

    def get(self, seq: int) -> Entry | None:
        """Return a decision; None if it is too old, or not made yet."""
        first = self.last - len(self._entries) + 1
        return self._entries[seq - first] if first <= seq <= self.last else None

    def since(self, seq: int, most: int) -> tuple[list[DecisionRow], int]:
        """Return at most so many of the decisions after a number, and how many there are not."""
        count = self.last - seq
        rows = [row(entry) for entry in _take(self.latest(), min(count, most))]
        return rows[::-1], count - len(rows)

    def latest(self, before: int = 0) -> Iterator[Entry]:
        """Yield the decisions before a number, the latest first."""
        for entry in reversed(self._entries):
            if not before or entry.seq < before:
                yield entry


def _take(entries: Iterator[Entry], most: int) -> Iterator[Entry]:
    return (entry for entry, _ in zip(entries, range(most), strict=False))


def row(entry: Entry) -> DecisionRow:
    decision = entry.decision
    recorded = decision.result != "scheduled" or decision.nominated or decision.feasible_nodes
    summary = why(decision) if recorded else ""
    post_filter = decision.post_filter
    return DecisionRow(
        seq=entry.seq,
        at=format_time(entry.at),
        pod=decision.pod,
        result=decision.result,
        summary=summary if len(summary) <= LONGEST_SUMMARY else summary[: LONGEST_SUMMARY - 1] + "…",
        node=decision.node,
        attempts=decision.attempts,
        profile=decision.profile,
        plugins=decision.unschedulable_plugins,
        victims=[] if post_filter is None else post_filter.victims,
    )
