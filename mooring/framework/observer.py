"""What the scheduler tells to whoever measures it.

Nothing here measures: the core knows no metrics and has no timer of its own. An Observer brings the timer and
hears what took how long; without one, nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooring.framework.events import ClusterEvent
from mooring.framework.status import Code

Record = Callable[[Code, float], None]
"""Told how something ended and how many seconds it took."""


def _ignore(_: object, seconds: float) -> None:
    """The Record of nobody."""


class Observer:
    """Hears everything and does nothing about it; a subclass overrides what it cares for.

    `timer` gives seconds since any moment, the same throughout.
    """

    def __init__(self, timer: Callable[[], float]) -> None:
        self.timer = timer

    # ---- asked at start-up, so that little is left to do when it happens

    def extension_point(self, profile: str, point: str) -> Record:
        """Who is told of each run of all plugins of an extension point; points are "PreFilter" and so on."""
        return _ignore

    def plugin(self, plugin: str, point: str) -> Record:
        """Who is told of each run of one plugin, in the attempts where `sampled` said so."""
        return _ignore

    def hint(self, plugin: str, event: str) -> Callable[[str, float], None]:
        """Who is told of each answer of a queueing hint: "Queue", "QueueSkip" or "Error"."""
        return _ignore

    # ---- told

    def sampled(self) -> bool:
        """Whether plugins are timed one by one in the attempt that starts now."""
        return False

    def events_handled(self, events: Sequence[ClusterEvent], seconds: float) -> None:
        """A change of an object, which amounted to these events, was taken in."""

    def pod_queued(self, queue: str, event: str) -> None:
        """A pod entered the active, backoff or unschedulable queue because of an event."""

    def algorithm_ended(self, seconds: float) -> None:
        """A node was found, or not, preemption included."""

    def attempt_failed(self, profile: str, result: str, seconds: float) -> None:
        """An attempt ended in "unschedulable" or "error"."""

    def pod_scheduled(
        self, profile: str, seconds: float, attempts: int, since_first: float, flushed: bool
    ) -> None:
        """An attempt ended with the pod bound: how long it took, how many there were and how long ago the pod
        first became active, and whether it came back only because it had waited for too long."""

    def permit_waited(self, code: Code, seconds: float) -> None:
        """A pod that permit plugins held was released, refused or failed."""

    def preemption_attempted(self) -> None:
        """The default preemption was asked for a node."""

    def victims_selected(self, count: int) -> None:
        """Pods are about to be evicted for another one."""

    def preemption_ended(self, result: str, seconds: float) -> None:
        """All victims are gone or going ("success"), or one of them could not be evicted ("error")."""
