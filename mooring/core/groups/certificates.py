"""Certificates of failed plans: whether a gang that had too few places would fail again.

An event that leaves room for one member wakes every gang that waits for such room, and most of them need more
than that. What the nodes take of a shape is counted once for all of them, and a gang that is refused by that
count goes back to where it waited: no attempt, no event, no write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mooring.core.groups.plan import Planner
from mooring.core.groups.room import alike, measure
from mooring.core.queue import QueuedPodInfo
from mooring.framework.nodes import IntArray
from mooring.framework.pod import GroupKey, PodInfo, Shape
from mooring.runtime.profile import Profile

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


class Certificates:
    """Judges groups whose last attempt failed and whose members have not changed since."""

    def __init__(self, scheduler: Scheduler, planner: Planner) -> None:
        self._scheduler = scheduler
        self._planner = planner
        self._state = (-1, -1)  # of the cluster, when capacities were counted
        self._capacities: dict[tuple[Profile, Shape], IntArray | None] = {}
        self._lacking: dict[tuple[Profile, Shape, int], bool] = {}

    def put_back(self, first: QueuedPodInfo, keys: Sequence[GroupKey]) -> bool:
        """Let a popped member wait again if an attempt at its group, and those that start with it, would
        fail; whether that is so."""
        own = self._scheduler.members.waits.get(first.pod.group) if first.pod.group is not None else None
        if first.activated or own is None or not own.waits_for:
            return False
        if not any(self.hold(key) for key in keys):
            return False
        first.attempts -= 1
        first.refused_by((), own.waits_for)
        self._scheduler.queue.add_unschedulable_if_not_present(first, self._scheduler.clock())
        return True

    def hold(self, key: GroupKey) -> bool:
        """Whether the nodes still have too few places for a group."""
        members = self._scheduler.members
        wait = members.waits.get(key)
        if wait is None or not wait.waits_for or key in members.broken:
            return False
        pod = wait.kind = wait.kind or self._kind(key)
        profile = None if pod is None else self._scheduler.profiles.get(pod.scheduler_name)
        if pod is None or profile is None:
            return False
        missing = self._planner.missing(profile, pod)
        if missing <= 1 or not self._lack(profile, pod, missing):
            return False
        nominator = self._scheduler.queue.nominator
        if nominator.nodes_with_nominations() and any(nominator.node_of(p.uid) for p in members.pods(key)):
            return False
        if self._scheduler.group_waits.has_starved(profile, key):
            return False
        return not self._planner.may_preempt(profile, pod, key)

    def _kind(self, key: GroupKey) -> PodInfo | None:
        """One of the members, where they are all alike, none has a node and none is being deleted."""
        pods = list(self._scheduler.members.pods(key))
        if any(pod.terminating or self._scheduler.cluster.placed(pod.uid) is not None for pod in pods):
            return None
        return pods[0] if pods and alike(pods) else None

    def _lack(self, profile: Profile, pod: PodInfo, missing: int) -> bool:
        """Whether the nodes take fewer pods like this one than are missing. It is found out once for all
        gangs of this kind, until something changes."""
        table = self._scheduler.cluster.table
        state = (table.pod_log.position, table.node_log.position)
        if state != self._state:
            self._state, self._capacities, self._lacking = state, {}, {}
        asked = (profile, pod.shape, missing)
        lack = self._lacking.get(asked)
        if lack is None:
            capacities = self._count(profile, pod)
            lack = capacities is not None and int(np.minimum(capacities, missing).sum()) < missing
            self._lacking[asked] = lack
        return lack

    def _count(self, profile: Profile, pod: PodInfo) -> IntArray | None:
        """How many pods like this one each row takes; None where more than resources limits their number."""
        spec = pod.spec
        if pod.shape.volumes or spec.resource_claims or spec.affinity is not None:
            return None  # depends on objects that are not part of the state
        counted = (profile, pod.shape)
        if counted not in self._capacities:
            room = measure(self._scheduler, profile, pod)
            self._capacities[counted] = None if room is None else room.capacities()
        return self._capacities[counted]
