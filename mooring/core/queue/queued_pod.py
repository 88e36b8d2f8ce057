"""A pod in the scheduling queue, with the record of its attempts."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from mooring.framework.pod import PodInfo

if TYPE_CHECKING:
    from mooring.core.queue.in_flight import Occurrence
    from mooring.core.queue.unschedulable import Group

NO_PLUGINS: frozenset[str] = frozenset()


class Place(Enum):
    """Where a pod is, seen from the queue."""

    OUTSIDE = "outside"
    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"  # failed without being refused; never tried before its backoff ends
    UNSCHEDULABLE = "unschedulable"  # gated pods too
    IN_FLIGHT = "in flight"


class QueuedPodInfo:
    """A pod with what the queue knows of it. One object lives as long as the pod is pending."""

    __slots__ = (
        "attempts",
        "backoff_expiry",
        "began",
        "consecutive_errors",
        "flush_timestamp",
        "gating_plugin",
        "group",
        "heap_key",
        "initial_attempt_timestamp",
        "not_before",
        "occurrence",
        "pending_plugins",
        "place",
        "pod",
        "ticket",
        "timeout_tick",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, pod: PodInfo, timestamp: float) -> None:
        self.pod = pod
        self.timestamp = timestamp  # of creation or of the last failed attempt; orders equal priorities
        self.attempts = 0
        self.began = 0.0  # when the last attempt did, on the observer's timer
        self.initial_attempt_timestamp: float | None = None  # when it first became active
        self.unschedulable_count = 0  # attempts that ended in a refusal
        self.consecutive_errors = 0  # attempts that failed otherwise, since the last refusal
        self.unschedulable_plugins = NO_PLUGINS  # who refused it
        self.pending_plugins = NO_PLUGINS  # who refused it with Pending: their events skip the backoff
        self.gating_plugin = ""  # whose pre_enqueue keeps it out
        self.not_before: float | None = None  # when the refusal ends by itself
        self.was_flushed = False  # came back because it had waited for too long, not through an event
        self.flush_timestamp = 0.0
        self.place = Place.OUTSIDE
        # The queue's own bookkeeping.
        self.backoff_expiry: float | None = None
        self.ticket = 0
        self.heap_key: Any = None
        self.timeout_tick = 0
        self.group: Group | None = None
        self.occurrence: Occurrence | None = None

    @property
    def gated(self) -> bool:
        return self.gating_plugin != ""

    def refused_by(
        self,
        unschedulable_plugins: Iterable[str] = (),
        pending_plugins: Iterable[str] = (),
        not_before: float | None = None,
    ) -> None:
        """Record why an attempt failed; without any plugin it counts as an error."""
        self.unschedulable_plugins = frozenset(unschedulable_plugins)
        self.pending_plugins = frozenset(pending_plugins)
        self.not_before = not_before

    def __repr__(self) -> str:
        """All that a person needs who looks for what went wrong."""
        refused = sorted(self.unschedulable_plugins | self.pending_plugins)
        return (
            f"<QueuedPodInfo {self.pod.key} uid={self.pod.uid} {self.place.value} since={self.timestamp}"
            f" attempts={self.attempts} refusals={self.unschedulable_count} errors={self.consecutive_errors}"
            f" refused by={refused} gated by={self.gating_plugin!r} not before={self.not_before}>"
        )
