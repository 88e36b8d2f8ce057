"""Planning a group in each of its placements, and taking the best.

Where members are equal and only resources limit how many fit, what every placement takes is a sum over its
rows. Then the placements are compared by these sums, and members are placed in the best alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mooring.core.groups.plan import Plan, Planner
from mooring.core.groups.room import measure, same_shape
from mooring.core.queue import QueuedPodInfo
from mooring.framework.nodes import BoolArray
from mooring.framework.placements import Assignment, Placement, PlacementPlan, PodGroupInfo
from mooring.framework.pod import GroupKey
from mooring.framework.status import Code, Status
from mooring.runtime.profile import Profile
from mooring.runtime.runners import PluginError

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


class PlacementPlanner:
    """Plans groups under TopologyAwareWorkloadScheduling."""

    def __init__(self, scheduler: Scheduler, planner: Planner) -> None:
        self._scheduler = scheduler
        self._planner = planner

    def plan(self, profile: Profile, key: GroupKey, pods: Sequence[QueuedPodInfo], *, preempt: bool) -> Plan:
        """The best of the plans for each placement. It is in force where its status is success."""
        group = self._info(key, pods)
        placements = self.generate(profile, key, pods)
        if isinstance(placements, Status):
            return Plan([], placements)
        try:
            shortlist = self._shortlist(profile, group, placements, preempt)
            plans = [self._planned(profile, placement, pods, preempt) for placement in shortlist]
            broken = next((plan for plan in plans if plan.status.code is Code.ERROR), None)
            if broken is not None:
                return broken
            fitting = [i for i, plan in enumerate(plans) if plan.status.ok or plan.waiting_on_preemption]
            if not fitting:
                return _refused(plans[0], len(placements))
            offers = [PlacementPlan(shortlist[i], _assignments(plans[i])) for i in fitting]
            best = plans[fitting[self._best(profile, group, offers)]]
        except PluginError as failure:
            return Plan([], Status(Code.ERROR, str(failure), plugin=failure.plugin))
        if best.status.ok:
            self._planner.redo(best)
        return best

    def generate(
        self, profile: Profile, key: GroupKey, pods: Sequence[QueuedPodInfo]
    ) -> Sequence[Placement] | Status:
        """The placements of a group, or why it has none."""
        return profile.placements.generate(self._info(key, pods), self._scheduler.cluster.nodes)

    def _info(self, key: GroupKey, pods: Sequence[QueuedPodInfo]) -> PodGroupInfo:
        scheduled = self._scheduler.members.scheduled_pods(key)
        return PodGroupInfo(key, [queued.pod for queued in pods], scheduled)

    def _planned(
        self, profile: Profile, placement: Placement, pods: Sequence[QueuedPodInfo], preempt: bool
    ) -> Plan:
        plan = self._planner.plan(profile, pods, self.mask(placement), preempt=preempt)
        self._planner.undo(plan)
        return plan

    def _shortlist(
        self, profile: Profile, group: PodGroupInfo, placements: Sequence[Placement], preempt: bool
    ) -> Sequence[Placement]:
        """The placements in which members must be placed to know the best, or why none fits."""
        first = group.pods[0]
        if len(placements) == 1 or not same_shape(group.pods):
            return placements
        if not self._planner.may_judge_beforehand(profile, first, preempt):
            return placements
        room = measure(self._scheduler, profile, first)
        if room is None:
            return placements
        capacities, enough = room.capacities(), max(self._planner.missing(profile, first), 1)
        offers = []
        for placement in placements:
            count = min(int(capacities[self._rows(placement)].sum()), len(group.pods))
            if count >= enough:
                members = [Assignment(pod, "") for pod in group.pods[:count]]
                offers.append(PlacementPlan(placement, members))
        if not offers:
            return placements[:1]
        if not profile.placements.scored_by_members:
            return [offer.placement for offer in offers]
        return [offers[self._best(profile, group, offers)].placement]

    def _best(self, profile: Profile, group: PodGroupInfo, offers: Sequence[PlacementPlan]) -> int:
        """The offer with the highest score; among equals the one with the fewest nodes, then the first."""
        if len(offers) == 1:
            return 0
        scores = profile.placements.scores(group, offers)
        most = max(scores)
        best = [i for i, score in enumerate(scores) if score == most]
        return min(best, key=lambda i: len(offers[i].placement.node_names or ()))

    def _rows(self, placement: Placement) -> npt.NDArray[np.intp] | slice:
        row_of = self._scheduler.cluster.table.row_of
        if placement.node_names is None or len(placement.node_names) == len(row_of):
            return slice(None)
        return np.array([row_of[name] for name in placement.node_names if name in row_of], np.intp)

    def mask(self, placement: Placement) -> BoolArray | None:
        """The rows of the node table that a placement consists of; None: all."""
        rows = self._rows(placement)
        if isinstance(rows, slice):
            return None
        mask = np.zeros(len(self._scheduler.cluster.table), np.bool_)
        mask[rows] = True
        return mask


def _refused(first: Plan, placements: int) -> Plan:
    reason = first.status.reasons[0]
    text = f"0/{placements} placements are available, first placement status: {reason}"
    first.status = Status(Code.UNSCHEDULABLE, text)
    return first


def _assignments(plan: Plan) -> list[Assignment]:
    cycles = [member.cycle for member in plan.members if member.cycle is not None]
    return [Assignment(cycle.pod, cycle.node_name) for cycle in cycles]
