"""Room for a gang that has waited too long: nodes are chosen, and what becomes free there is kept for it.

Members are nominated to the chosen nodes, so pods of the same or a lower priority count them as if they were
there. The gang starts when the last pod of the chosen nodes has ended, or earlier if there is room elsewhere.
Pods whose activeDeadlineSeconds ends before that of a pod on these nodes may use the room meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mooring.api.times import parse_time
from mooring.core.groups.plan import Planner
from mooring.core.queue import QueuedPodInfo
from mooring.framework.pod import PodInfo
from mooring.runtime.profile import Profile

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


class Reservations:
    """Chooses the nodes that are kept for a gang."""

    def __init__(self, scheduler: Scheduler, planner: Planner) -> None:
        self._scheduler = scheduler
        self._planner = planner

    def choose(
        self, profile: Profile, pods: Sequence[QueuedPodInfo], nominations: Mapping[str, str]
    ) -> Mapping[str, str]:
        """The nodes to keep for members, by uid; those they are nominated to already, while these exist."""
        missing = max(self._planner.missing(profile, pods[0].pod), 1)
        cluster = self._scheduler.cluster
        kept = {uid: node for uid, node in nominations.items() if node and cluster.node(node) is not None}
        if len(kept) >= missing:
            return kept
        with self._scheduler.in_rehearsal():
            return self._emptiest(profile, pods[:missing])

    def last_end(self, nodes: Iterable[str]) -> float | None:
        """When the last of the pods on these nodes has to end, of those with an activeDeadlineSeconds; None
        where none has one."""
        cluster, now = self._scheduler.cluster, self._scheduler.clock()
        ends = []
        for name in set(nodes):
            info = cluster.node(name)
            for pod in () if info is None else info.pods:
                seconds = pod.spec.active_deadline_seconds
                if seconds is not None:
                    started = pod.status.start_time or pod.metadata.creation_timestamp
                    ends.append((parse_time(started) if started else now) + seconds)
        return max(ends, default=None)

    def _emptiest(self, profile: Profile, pods: Sequence[QueuedPodInfo]) -> Mapping[str, str]:
        """Nodes that the members would fit on once they are empty, of those with the fewest pods to wait for;
        none where they would fit nowhere."""
        cluster = self._scheduler.cluster
        occupants = [pod for pod in cluster.pods() if _ends(pod)]
        counts = np.zeros(len(cluster.table), np.int64)
        for pod in occupants:
            counts[cluster.table.row_of[pod.node_name]] += 1
        order = np.argsort(counts, kind="stable")
        lifted = [cluster.lift(pod.uid) for pod in occupants]
        try:
            return _fewest(len(order), lambda count: self._nodes(profile, pods, order[:count]))
        finally:
            for pod in lifted:
                cluster.put_back(pod)

    def _nodes(
        self, profile: Profile, pods: Sequence[QueuedPodInfo], rows: npt.NDArray[np.intp]
    ) -> Mapping[str, str]:
        """Where the members would go on these rows; empty where not all of them would."""
        within = np.zeros(len(self._scheduler.cluster.table), np.bool_)
        within[rows] = True
        plan = self._planner.plan(profile, pods, within, preempt=False)
        cycles = [member.cycle for member in plan.members if member.cycle is not None]
        self._planner.undo(plan)
        if not plan.status.ok:
            return {}
        return {cycle.pod.uid: cycle.node_name for cycle in cycles}


def _fewest(count: int, attempt: Callable[[int], Mapping[str, str]]) -> Mapping[str, str]:
    """The result for the smallest number of nodes that has one, by bisection."""
    best = attempt(count)
    low, high = 0, count
    while best and high - low > 1:
        middle = (low + high) // 2
        result = attempt(middle)
        if result:
            best, high = result, middle
        else:
            low = middle
    return best


def _ends(pod: PodInfo) -> bool:
    """Whether a pod leaves its node at some time: those of DaemonSets do not."""
    owner = pod.metadata.controller()
    return owner is None or owner.kind != "DaemonSet"
