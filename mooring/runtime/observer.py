"""What the scheduler tells to whoever measures it.

Nothing here measures: the core knows no metrics and has no timer of its own. An Observer brings the timer and
hears what took how long; without one, nothing is timed.

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
"""Told how something ended and how many seconds it took."""

Scheduled = Callable[[Laps, float, int, float, EngineState], None]
"""Told of a pod that was bound: its laps, when this attempt began, how many attempts there were, the seconds
since the pod first became active, and the cycle's state."""

BINDING: Points = ("PreBind", "Bind", "PostBind")
SCORED: Points = ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "", *BINDING)
UNSCORED: Points = ("PreFilter", "Filter", "Reserve", "Permit", "", *BINDING)
"""The points of an attempt; without a score where there was but one node to take. Between Permit and PreBind
a pod may have to wait, which is nobody's time."""


class Observer:
    """Hears everything and does nothing about it; a subclass overrides what it cares for.

    `timer` gives seconds since any moment, the same throughout. In one of `sample_every` cycles plugins are
    timed one by one.
    """

    def __init__(self, timer: Callable[[], float], sample_every: int = 10) -> None:
        self.timer = timer
        self.sample_every = sample_every

    # ---- asked at start-up, so that little is left to do when it happens

    def scheduled(self, profile: str, points: Points) -> Scheduled:
        """Who is told of each pod that these points, all with success, ended in binding."""
        return _ignore

    def extension_point(self, profile: str, point: str) -> Record:
        """Who is told of a point that is none of those: PreEnqueue, PostFilter, Unreserve."""
        return _ignore

    def plugin(self, plugin: str, point: str) -> Record:
        """Who is told of each run of one plugin, in the cycles that are sampled."""
        return _ignore

    def hint(self, plugin: str, event: str) -> Callable[[str, float], None]:
        """Who is told of each answer of a queueing hint: "Queue", "QueueSkip" or "Error"."""
        return _ignore

    # ---- told when it happens

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
        """No node was found, preemption included; where one was, the laps tell."""

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


def _ignore(*_: object) -> None:
    """Tells nobody."""
