"""Planning a group in each of its placements, and taking the best.

Where members are equal and only resources limit how many fit, what every placement takes is a sum over its
rows. Then the placements are compared by these sums, and members are placed in the best alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mooring.core.groups.dialects import group_args
from mooring.core.groups.parts import fewest_parts
from mooring.core.groups.plan import Plan, Planner
from mooring.core.groups.room import alike, measure
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
            # The first says why the members have no place, if none of the others does.
            trials = [
                self._planned(profile, group, placement, pods, preempt, whole=i == 0)
                for i, placement in enumerate(shortlist)
            ]
            broken = next((plan for plan, _ in trials if plan.status.code is Code.ERROR), None)
            if broken is not None:
                return broken
            fitting = [
                (PlacementPlan(placement, _assignments(plan)), len(parts), plan)
                for placement, (plan, parts) in zip(shortlist, trials, strict=True)
                if plan.status.ok or plan.waiting_on_preemption
            ]
            if not fitting:
                return _refused(trials[0][0], len(placements))
            best = fitting[self._best(profile, group, [(offer, parts) for offer, parts, _ in fitting])][2]
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
        self,
        profile: Profile,
        group: PodGroupInfo,
        placement: Placement,
        pods: Sequence[QueuedPodInfo],
        preempt: bool,
        whole: bool,
    ) -> tuple[Plan, list[BoolArray]]:
        """The plan for a placement, taken back, and the parts of it that are filled."""
        parts: list[BoolArray] = []
        if placement.parts:
            parts = self._parts(group, placement, self._counting(profile, group, pods))
        plan = self._planner.plan(profile, pods, self.mask(placement), parts, preempt=preempt, whole=whole)
        self._planner.undo(plan)
        return plan, parts

    def _counting(
        self, profile: Profile, group: PodGroupInfo, pods: Sequence[QueuedPodInfo]
    ) -> Callable[[Placement], int]:
        """A function that says how many members a part of a placement takes."""
        room = measure(self._scheduler, profile, group.pods[0]) if alike(group.pods) else None
        if room is not None:
            capacities = room.capacities()
            return lambda part: int(capacities[self._rows(part)].sum())

        def places_in(part: Placement) -> int:
            trial = self._planner.plan(profile, pods, self.mask(part), preempt=False)
            self._planner.undo(trial)
            return len(_assignments(trial))

        return places_in

    def _parts(
        self, group: PodGroupInfo, placement: Placement, places_in: Callable[[Placement], int]
    ) -> list[BoolArray]:
        """The masks of the parts to fill one after another; none where a placement is not divided."""
        if not placement.parts:
            return []
        occupied = {pod.node_name for pod in group.scheduled}
        masks = map(self.mask, fewest_parts(placement, len(group.pods), places_in, occupied))
        return [mask for mask in masks if mask is not None]

    def _shortlist(
        self, profile: Profile, group: PodGroupInfo, placements: Sequence[Placement], preempt: bool
    ) -> Sequence[Placement]:
        """The placements in which members must be placed to know the best, or why none fits."""
        first = group.pods[0]
        if len(placements) == 1 or not alike(group.pods):
            return placements
        if not self._planner.may_judge_beforehand(profile, first, preempt):
            return placements
        room = measure(self._scheduler, profile, first)
        if room is None:
            return placements
        capacities, enough = room.capacities(), max(self._planner.missing(profile, first), 1)

        def places_in(part: Placement) -> int:
            return int(capacities[self._rows(part)].sum())

        offers = []
        for placement in placements:
            count = min(places_in(placement), len(group.pods))
            if count >= enough:
                members = [Assignment(pod, "") for pod in group.pods[:count]]
                parts = len(self._parts(group, placement, places_in))
                offers.append((PlacementPlan(placement, members), parts))
        if not offers:
            return placements[:1]
        if not profile.placements.scored_by_members:
            return [offer.placement for offer, _ in offers]
        return [offers[self._best(profile, group, offers)][0].placement]

    def _best(
        self, profile: Profile, group: PodGroupInfo, offers: Sequence[tuple[PlacementPlan, int]]
    ) -> int:
        """The offer with the highest score; among equals the one with the fewest nodes, then the first. As in
        kube-scheduler, nodes do not count with groupPreemption: KubeScheduler.

        Where placements have parts, those with a place for most members, in the fewest parts, are preferred.
        """
        if len(offers) == 1:
            return 0
        candidates = list(range(len(offers)))
        if any(parts for _, parts in offers):
            badness = [(-len(offer.assignments), parts) for offer, parts in offers]
            candidates = [i for i in candidates if badness[i] == min(badness)]
        scores = profile.placements.scores(group, [offers[i][0] for i in candidates])
        best = [i for i, score in zip(candidates, scores, strict=True) if score == max(scores)]
        if group_args(profile, group.key).preempts_as_kube_scheduler:
            return best[0]
        return min(best, key=lambda i: len(offers[i][0].placement.node_names or ()))

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
