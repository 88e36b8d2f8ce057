"""Preemption for a whole group: which pods, anywhere in the cluster, must leave for the group to start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mooring.api.workloads import PodDisruptionBudget
from mooring.core.groups.dialects import group_args
from mooring.core.groups.placements import PlacementPlanner
from mooring.core.groups.plan import DEFAULT_PREEMPTION, GROUP_UNSCHEDULABLE, Plan, Planner
from mooring.core.groups.room import Room, alike, measure
from mooring.core.groups.trials import CountedTrial, PlannedTrial
from mooring.core.groups.units import Unit, units_of
from mooring.core.groups.victims import Victims, VictimSearch
from mooring.core.queue import QueuedPodInfo
from mooring.framework.placements import Placement
from mooring.framework.pod import GroupKey, PodInfo
from mooring.framework.status import SUCCESS, Code, Status, unschedulable
from mooring.plugins.default_preemption.victims import importance
from mooring.runtime.profile import Profile

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

logger = logging.getLogger("mooring.core")

NOT_REGISTERED = unschedulable(
    "default preemption plugin is not registered, workload aware preemption is disabled"
)
CONSTRAINED = unschedulable(
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)
NEVER = unschedulable("not eligible due to preemptionPolicy=Never.")
NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "No preemption victims found for incoming preemptor")


class Preemption(msgspec.Struct, eq=False):
    """What preemption for a group came to. Success: the group starts once its victims have left."""

    status: Status
    nodes: Mapping[str, str] | None = None  # by member: the node that is kept for it; None: as was planned


class _Candidates(msgspec.Struct, eq=False):
    units: list[Unit]
    leaving: list[PodInfo]  # pods that terminate already: their room is waited for


class GroupPreemption:
    """Finds the victims of groups, and has them evicted."""

    def __init__(self, scheduler: Scheduler, planner: Planner, placements: PlacementPlanner) -> None:
        self._scheduler = scheduler
        self._planner = planner
        self._placements = placements
        self._by_placement = scheduler.feature_gates.is_enabled("TopologyAwareWorkloadScheduling")

    def run(
        self, profile: Profile, key: GroupKey, pods: Sequence[QueuedPodInfo], plan: Callable[[], Plan]
    ) -> Preemption:
        """Evict the victims of a group that has no place; `plan` says whether it has one in a trial."""
        scheduler = self._scheduler
        if DEFAULT_PREEMPTION not in profile.plugins:
            return Preemption(NOT_REGISTERED)
        group = scheduler.members.group(key)
        if group is None:
            missing = f'podgroup.scheduling.k8s.io "{key.name}" not found'
            return Preemption(Status(Code.ERROR, f"failed to get pod group object: {missing}"))
        args = group_args(profile, key)
        if group.topology_key and args.preempts_as_kube_scheduler:
            return Preemption(CONSTRAINED)
        if any(queued.pod.spec.preemption_policy == "Never" for queued in pods):
            return Preemption(NEVER)
        with scheduler.in_rehearsal():
            if args.preempts_as_kube_scheduler:
                chosen = self._as_kube_scheduler(group.priority, plan)
            else:
                chosen = self._fewest(profile, key, group.priority, pods, args.preserve_gangs)
        if isinstance(chosen, Status):
            return Preemption(chosen)
        if chosen.violating:
            names = ", ".join(pod.key for pod in chosen.violating)
            logger.warning(
                "pod group %s: preempting %d pods against their PodDisruptionBudgets: %s",
                key,
                len(chosen.violating),
                names,
            )
        members = [queued.pod for queued in pods]
        scheduler.evictions.preempt_for_group(group, members, chosen.pods, chosen.nodes)
        return Preemption(SUCCESS, chosen.nodes)

    # ---- as kube-scheduler does it

    def _as_kube_scheduler(self, priority: int, plan: Callable[[], Plan]) -> Victims | Status:
        """All candidates are removed, and put back one by one where the group still fits."""
        scheduler, last = self._scheduler, Plan([])

        def remember() -> Plan:
            nonlocal last
            last = plan()
            return last

        pods = scheduler.cluster.pods()
        units = [unit for unit in units_of(scheduler, pods, False) if unit.priority < priority]
        if not units:
            return NO_VICTIMS
        trial = PlannedTrial(scheduler, remember, self._undo_if_in_force)
        try:
            search = VictimSearch(units, trial, scheduler.store.list(PodDisruptionBudget))
            victims = search.least_important()
            if victims is None:
                return last.status
            return Victims(victims, search.violating(victims), None)
        finally:
            trial.restore()

    def _undo_if_in_force(self, plan: Plan) -> None:
        if plan.status.ok:
            self._planner.undo(plan)

    # ---- the fewest victims

    def _fewest(
        self,
        profile: Profile,
        key: GroupKey,
        priority: int,
        pods: Sequence[QueuedPodInfo],
        preserve_gangs: bool,
    ) -> Victims | Status:
        candidates = self._candidates(priority, preserve_gangs)
        if not candidates.units and not candidates.leaving:
            return NO_VICTIMS
        placements = [Placement("")]
        if self._by_placement:
            generated = self._placements.generate(profile, key, pods)
            if isinstance(generated, Status):
                return generated
            placements = list(generated)
        room = None
        if alike([queued.pod for queued in pods]):
            room = measure(self._scheduler, profile, pods[0].pod)
        best: Victims | None = None
        for placement in placements:
            inside = candidates if placement.node_names is None else _within(candidates, placement.node_names)
            victims = self._search(profile, placement, pods, inside, room)
            if victims is not None and (best is None or victims.cost < best.cost):
                best = victims
        if best is not None:
            return best
        if not self._by_placement:
            return unschedulable(GROUP_UNSCHEDULABLE)
        first = f"first placement status: {GROUP_UNSCHEDULABLE}"
        return unschedulable(f"0/{len(placements)} placements are available, {first}")

    def _candidates(self, priority: int, preserve_gangs: bool) -> _Candidates:
        """The pods that may leave for a group of this priority, and those that are leaving."""
        pods: list[PodInfo] = []
        leaving: list[PodInfo] = []
        for pod in self._scheduler.cluster.pods():
            (leaving if pod.terminating and pod.priority < priority else pods).append(pod)
        units: list[Unit] = []
        for unit in units_of(self._scheduler, pods, preserve_gangs):
            if unit.priority < priority:
                units.append(unit)
            elif unit.surplus:  # it cannot leave as a whole
                lower = sorted((pod for pod in unit.pods if pod.priority < priority), key=importance)
                units += [Unit([pod], pod.priority) for pod in lower[-unit.surplus :]]
        return _Candidates(units, leaving)

    def _search(
        self,
        profile: Profile,
        placement: Placement,
        pods: Sequence[QueuedPodInfo],
        candidates: _Candidates,
        room: Room | None,
    ) -> Victims | None:
        """The fewest victims that let the group into a placement."""
        scheduler, mask = self._scheduler, self._placements.mask(placement)
        budgets = scheduler.store.list(PodDisruptionBudget)
        if room is not None:
            needed = max(self._planner.missing(profile, pods[0].pod), 1)
            counted = CountedTrial(scheduler, room, mask, pods, needed)
            return VictimSearch(candidates.units, counted, budgets).fewest(candidates.leaving)
        planned = PlannedTrial(
            scheduler, lambda: self._planner.plan(profile, pods, mask, preempt=False), self._planner.undo
        )
        try:
            return VictimSearch(candidates.units, planned, budgets).fewest(candidates.leaving)
        finally:
            planned.restore()


def _within(candidates: _Candidates, names: frozenset[str]) -> _Candidates:
    return _Candidates(
        [unit for unit in candidates.units if any(pod.node_name in names for pod in unit.pods)],
        [pod for pod in candidates.leaving if pod.node_name in names],
    )
