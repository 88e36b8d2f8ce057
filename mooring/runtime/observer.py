"""Callbacks of the scheduler for metrics.

Nothing here measures: the core has no metrics and no timer of its own. An Observer provides the timer and
receives durations; without one, nothing is timed.

An attempt takes a hundred microseconds or so, and what watches it must not add many calls. The points of an
attempt follow one another, so the time at the end of each is noted in a list, its laps, which is handed over
when the attempt ends: between `laps[i]` and `laps[i + 1]` ran `points[i]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooring.framework.events import ClusterEvent
from mooring.framework.status import Code
from mooring.runtime.engine_state import EngineState

Laps = list[float]
Points = tuple[str, ...]
Record = Callable[[Code, float], None]
"""Called with the code that something ended with, and its duration in seconds."""

Scheduled = Callable[[Laps, float, int, float, EngineState], None]
"""Called for a bound pod with its laps, the start of this attempt, the number of attempts, the seconds
since the pod first became active, and the cycle's state."""

BINDING: Points = ("PreBind", "Bind", "PostBind")
SCORED: Points = ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "", *BINDING)
UNSCORED: Points = ("PreFilter", "Filter", "Reserve", "Permit", "", *BINDING)
"""The points of an attempt; without a score where there was but one node to take. Between Permit and PreBind
a pod may wait, which counts for no point."""


class Observer:
    """Hears everything and does nothing about it; a subclass overrides what it cares for.

    `timer` gives seconds since any moment, the same throughout. In one of `sample_every` cycles plugins are
    timed one by one.
    """

    def __init__(self, timer: Callable[[], float], sample_every: int = 10) -> None:
        self.timer = timer
        self.sample_every = sample_every

    # ---- called once, for functions that are then called often

    def scheduled(self, profile: str, points: Points) -> Scheduled:
        """Return the callback for pods that passed these points and were bound."""
        return _ignore

    def extension_point(self, profile: str, point: str) -> Record:
        """Return the callback for the other points: PreEnqueue, PostFilter, Unreserve."""
        return _ignore

    def plugin(self, plugin: str, point: str) -> Record:
        """Return the callback for runs of a plugin, in sampled cycles."""
        return _ignore

    def hint(self, plugin: str, event: str) -> Callable[[str, float], None]:
        """Return the callback for results of a queueing hint: "Queue", "QueueSkip" or "Error"."""
        return _ignore

    # ---- called when it happens

    def broken_off(
        self, profile: str, points: Points, laps: Laps, code: Code, state: EngineState | None
    ) -> None:
        """Only some of these points ran, and the last one that did ended with `code`. Without a state, it is
        not known which plugins took part."""

    def events_handled(self, events: Sequence[ClusterEvent], seconds: float) -> None:
        """A change of an object, which amounted to these events, was taken in."""

    def pod_queued(self, queue: str, event: str) -> None:
        """A pod entered the active, backoff or unschedulable queue because of an event."""

    def algorithm_failed(self, seconds: float) -> None:
        """No node was found, even with preemption. For successful attempts, see the laps."""

    def attempt_failed(self, profile: str, result: str, seconds: float) -> None:
        """An attempt ended in "unschedulable" or "error"."""

    def scheduled_after_flush(self) -> None:
        """A pod was bound which nothing had brought back but that it had waited for too long."""

    def permit_waited(self, code: Code, seconds: float) -> None:
        """A pod that permit plugins held was released, refused or failed."""

    def preemption_attempted(self) -> None:
        """The default preemption was asked for a node."""

    def victims_selected(self, count: int) -> None:
        """Pods are about to be evicted for another one."""

    def preemption_ended(self, result: str, seconds: float) -> None:
        """All victims are gone or going ("success"), or one of them could not be evicted ("error")."""

    def groups_enabled(self) -> None:
        """Pods are scheduled in groups. Called once, before all others."""

    def group_planned(self, seconds: float) -> None:
        """It was found out whether a pod group has a place, and where."""

    def group_attempted(self, profile: str, result: str, seconds: float) -> None:
        """An attempt at a pod group ended: "scheduled", "unschedulable", "waiting_on_preemption" or
        "error"."""

    def claim_created(self, result: str) -> None:
        """A ResourceClaim for extended resources was created ("success"), or could not be ("failure")."""

    def devices_waited(
        self, profile: str, drivers: Sequence[tuple[str, bool]], result: str, seconds: float
    ) -> None:
        """Devices became ready ("success"), failed ("failure"), or did not in time ("timeout"). `drivers` has
        one entry for each device, and whether it has binding conditions."""


def _ignore(*_: object) -> None:
    """No-op."""
