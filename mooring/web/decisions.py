"""Bounded list of recent decisions in the order in which they were made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from mooring.api.times import format_time
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.text import why
from mooring.explain.waiting import queued_pod
from mooring.web.records import DecisionRow

KEPT = 5000
LONGEST_SUMMARY = 500  # characters in a row


class Entry(NamedTuple):
    seq: int
    at: float
    decision: Decision
    priorities: Mapping[str, int] = {}  # of a preemptor and its victims, which are gone later


class RecentDecisions:
    """The last decisions, numbered from 1."""

    def __init__(self, clock: Callable[[], float], kept: int = KEPT) -> None:
        self._clock = clock
        self._entries: deque[Entry] = deque(maxlen=kept)
        self.kept = kept
        self.last = 0

    def add(self, decision: Decision, core: Scheduler | None = None) -> None:
        self.last += 1
        priorities = _priorities(decision, core) if core is not None and decision.post_filter else {}
        self._entries.append(Entry(self.last, self._clock(), decision, priorities))

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


def _priorities(decision: Decision, core: Scheduler) -> dict[str, int]:
    """Return the priorities of a preemptor and its victims, while they are still there."""
    post_filter = decision.post_filter
    node = core.cluster.node(post_filter.nominated_node or "") if post_filter is not None else None
    if post_filter is None or node is None or not post_filter.victims:
        return {}
    found = {pod.key: pod.priority for pod in node.pods if pod.key in post_filter.victims}
    queued = queued_pod(core, decision.pod)
    return found if queued is None else {**found, decision.pod: queued.pod.priority}


def _take(entries: Iterator[Entry], most: int) -> Iterator[Entry]:
    return (entry for entry, _ in zip(entries, range(most), strict=False))


def row(entry: Entry) -> DecisionRow:
    decision = entry.decision
    recorded = decision.result != "scheduled" or decision.nominated or decision.feasible_nodes
    summary = why(decision) if recorded else ""
    victims = [] if decision.post_filter is None else decision.post_filter.victims
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
        victims=victims,
        priority=entry.priorities.get(decision.pod, 0),
        victim_priorities=[entry.priorities.get(key, 0) for key in victims] if entry.priorities else [],
    )
