"""How long a pod whose attempt failed stays out of the active queue."""

from __future__ import annotations

import math

from mooring.core.queue.queued_pod import QueuedPodInfo

NEVER = -math.inf
_MOST_DOUBLINGS = 62


class Backoff:
    """Exponential backoff in whole seconds.

    Expiry is rounded down to a second and that whole second still counts, so that pods which fail within
    the same second come back together and in order: a backoff of d lasts longer than d and at most d + 1.
    """

    __slots__ = ("initial", "maximum")

    def __init__(self, initial: float, maximum: float) -> None:
        self.initial = initial
        self.maximum = maximum

    def duration(self, count: int) -> float:
        """The backoff after so many failures: the initial one doubled each time, up to the maximum."""
        if self.maximum == 0 or count == 0:
            return 0.0
        duration: float = self.initial * 2.0 ** min(count - 1, _MOST_DOUBLINGS)
        return min(duration, self.maximum)

    def expiry(self, queued: QueuedPodInfo) -> float:
        """The last second of the pod's backoff. Errors count apart from refusals, while they last."""
        expiry = queued.backoff_expiry
        if expiry is None:
            count = queued.consecutive_errors or queued.unschedulable_count
            if self.maximum == 0 or count == 0:
                expiry = NEVER
            else:
                expiry = math.floor(queued.timestamp + self.duration(count))
            queued.backoff_expiry = expiry
        return expiry

    def holds(self, queued: QueuedPodInfo, now: float) -> bool:
        """Whether the pod is still backing off."""
        return self.expiry(queued) >= math.floor(now)
