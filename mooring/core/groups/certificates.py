"""Certificates of failed plans: whether a gang that had too few places would fail again.

An event that leaves room for one member wakes every gang that waits for such room, and most of them need more
than that. What the nodes take of a shape is counted once for all of them, and a gang that is refused by that
count goes back to where it waited: no attempt, no event, no write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mooring.api.groups import PodGroup
from mooring.core.groups.members import GroupKind
from mooring.core.groups.plan import Planner
from mooring.core.groups.room import alike, measure
from mooring.core.queue import QueuedPodInfo
from mooring.framework.nodes import IntArray
from mooring.framework.pod import GroupKey, PodInfo, Shape, relevant_volumes
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
        self._lacking: dict[GroupKind, bool] = {}

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
        # One that waits for nodes to be kept for it is tried, so that they are chosen again if they change.
        if wait is None or not wait.waits_for or wait.reserves or key in members.broken:
            return False
        kind = wait.kind = wait.kind or self._kind(key)
        if kind is None or members.scheduled(key) or not self._lack(kind, key):
            return False
        nominator = self._scheduler.queue.nominator
        nominated = nominator.nodes_with_nominations()
        return not nominated or not any(nominator.node_of(each.uid) for each in members.pods(key))

    def _kind(self, key: GroupKey) -> GroupKind | None:
        """What the group has in common with others; None unless its members are all alike, none has a node
        and none is being deleted."""
        members = self._scheduler.members
        group, pods = members.group(key), list(members.pods(key))
        if group is None or not pods or any(pod.terminating for pod in pods) or not alike(pods):
            return None
        is_constrained = isinstance(group, PodGroup) and group.spec.scheduling_constraints is not None
        first = pods[0]
        return GroupKind(
            first.scheduler_name, first.shape, key.api_group, is_constrained, group.min_count or 0
        )

    def _lack(self, kind: GroupKind, key: GroupKey) -> bool:
        """Whether the nodes take fewer pods of this kind than must start, and none may make room for itself.
        It is found out once for all gangs of this kind, until something changes."""
        table = self._scheduler.cluster.table
        state = (table.pod_log.position, table.node_log.position)
        if state != self._state:
            self._state, self._capacities, self._lacking = state, {}, {}
        lack = self._lacking.get(kind)
        if lack is None:
            profile = self._scheduler.profiles.get(kind.scheduler_name)
            pod = next(iter(self._scheduler.members.pods(key)))
            lack = self._lacking[kind] = profile is not None and self._lack_room(profile, pod, key)
        return lack

    def _lack_room(self, profile: Profile, pod: PodInfo, key: GroupKey) -> bool:
        missing = self._planner.missing(profile, pod)
        if missing <= 1 or self._planner.may_preempt(profile, pod, key):
            return False
        capacities = self._count(profile, pod)
        return capacities is not None and int(np.minimum(capacities, missing).sum()) < missing

    def _count(self, profile: Profile, pod: PodInfo) -> IntArray | None:
        """How many pods like this one each row takes; None where more than resources limits their number."""
        spec = pod.spec
        if relevant_volumes(spec.volumes) or spec.resource_claims or spec.affinity is not None:
            return None  # depends on objects that are not part of the state
        counted = (profile, pod.shape)
        if counted not in self._capacities:
            room = measure(self._scheduler, profile, pod)
            self._capacities[counted] = None if room is None else room.capacities()
        return self._capacities[counted]
