"""A pod in the scheduling queue, with the record of its attempts."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

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


class QueuedPodInfo(msgspec.Struct, eq=False):
    """A pod with what the queue knows of it. One object lives as long as the pod is pending."""

    pod: PodInfo
    timestamp: float  # of creation or of the last failed attempt; orders equal priorities
    attempts: int = 0
    began: float = 0.0  # when the last attempt did, on the observer's timer
    initial_attempt_timestamp: float | None = None  # when it first became active
    unschedulable_count: int = 0  # attempts that ended in a refusal
    consecutive_errors: int = 0  # attempts that failed otherwise, since the last refusal
    unschedulable_plugins: frozenset[str] = NO_PLUGINS  # who refused it
    pending_plugins: frozenset[str] = NO_PLUGINS  # who refused it with Pending: their events skip the backoff
    gating_plugin: str = ""  # whose pre_enqueue keeps it out
    not_before: float | None = None  # when the refusal ends by itself
    was_flushed: bool = False  # came back because it had waited for too long, not through an event
    flush_timestamp: float = 0.0
    activated: bool = False  # came back because it was activated, and is tried whatever is known of it
    place: Place = Place.OUTSIDE
    # The queue's own bookkeeping.
    backoff_expiry: float | None = None
    ticket: int = 0
    heap_key: Any = None
    timeout_tick: int = 0
    group: Group | None = None
    occurrence: Occurrence | None = None

    @property
    def in_flight(self) -> bool:
        return self.place is Place.IN_FLIGHT

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
