"""A group on trial: what an attempt at it would come to now. Nothing in the scheduler changes by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from mooring.core.groups.cycle import trial_order
from mooring.core.groups.plan import Plan, Planner
from mooring.core.queue import QueuedPodInfo
from mooring.framework.nodes import BoolArray
from mooring.framework.placements import Placement, PodGroupInfo
from mooring.framework.pod import GroupKey, PodInfo
from mooring.framework.status import Status
from mooring.runtime.profile import Profile

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


class _PlacingPlanner(Planner):
    """Places all members that it can also where the quorum has no place: who lacks what depends on it."""

    def may_judge_beforehand(self, profile: Profile, pod: PodInfo, preempt: bool) -> bool:
        return False


class GroupRehearsal:
    """The members of a group that have no node, and the placements in which they would be tried."""

    def __init__(self, scheduler: Scheduler, key: GroupKey) -> None:
        self._scheduler = scheduler
        self._key = key
        waiting = [pod for pod in scheduler.members.pods(key) if scheduler.cluster.placed(pod.uid) is None]
        ours = [pod for pod in waiting if pod.scheduler_name in scheduler.profiles and not pod.terminating]
        entries = [QueuedPodInfo(pod, scheduler.clock()) for pod in ours]
        self._entries = sorted(entries, key=trial_order)

    @property
    def pods(self) -> list[PodInfo]:
        """The members that wait, in the order in which they are tried."""
        return [entry.pod for entry in self._entries]

    def placements(self) -> Sequence[Placement] | Status:
        """The sets of nodes to try; a status where there is none."""
        scheduler = self._scheduler
        if not scheduler.feature_gates.is_enabled("TopologyAwareWorkloadScheduling"):
            return [Placement("")]
        group = PodGroupInfo(self._key, self.pods, scheduler.members.scheduled_pods(self._key))
        with scheduler.in_rehearsal():
            return self._profile.placements.generate(group, scheduler.cluster.nodes)

    def rows(self, placement: Placement) -> BoolArray | None:
        """The rows of the node table that a placement consists of; None: all."""
        names = self._scheduler.cluster.table.names
        if placement.node_names is None:
            return None
        return np.fromiter((name in placement.node_names for name in names), np.bool_, len(names))

    @contextmanager
    def plan(self, placement: Placement) -> Iterator[Plan]:
        """Plan the members in a placement. While this lasts, those with a place are assumed there."""
        scheduler = self._scheduler
        nominator = scheduler.queue.nominator
        nominations = [(pod, nominator.node_of(pod.uid), nominator.kept_until(pod.uid)) for pod in self.pods]
        planner = _PlacingPlanner(scheduler)
        with self._unobserved():
            for pod, _, _ in nominations:  # members are not in each other's way
                nominator.delete(pod.uid)
            try:
                plan = planner.plan(self._profile, self._entries, self.rows(placement))
                try:
                    yield plan
                finally:
                    planner.undo(plan)
            finally:
                for pod, node, until in nominations:
                    nominator.add(pod, node)
                    if until is not None:
                        nominator.keep(pod.uid, until)

    @property
    def _profile(self) -> Profile:
        return self._scheduler.profiles[self._entries[0].pod.scheduler_name]

    @contextmanager
    def _unobserved(self) -> Iterator[None]:
        """While this lasts, nothing is logged, measured or drawn at random."""
        scheduler, profile = self._scheduler, self._profile
        log, stopwatch = scheduler.log, profile.stopwatch
        scheduler.log, profile.stopwatch = None, None
        try:
            with scheduler.in_rehearsal(), scheduler.algorithm.in_rehearsal():
                yield
        finally:
            scheduler.log, profile.stopwatch = log, stopwatch
