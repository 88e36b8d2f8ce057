"""Preemption for a whole group: which pods, anywhere in the cluster, must leave for the group to start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mooring.api.workloads import PodDisruptionBudget
from mooring.core.groups.dialects import AnyPodGroup, group_args
from mooring.core.groups.placements import PlacementPlanner
from mooring.core.groups.plan import DEFAULT_PREEMPTION, GROUP_UNSCHEDULABLE, Plan, Planner
from mooring.core.groups.room import Room, alike, measure
from mooring.core.groups.slices import Sliced, finish
from mooring.core.groups.trials import CountedTrial, PlannedTrial
from mooring.core.groups.units import Unit, priority_in, split_units_by_budgets, units_of
from mooring.core.groups.victims import Victims, VictimSearch
from mooring.core.queue import QueuedPodInfo
from mooring.framework.placements import Placement
from mooring.framework.pod import GroupKey, PodInfo
from mooring.framework.status import SUCCESS, Code, Status, unschedulable
from mooring.plugins.default_preemption.budgets import Budgets
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
        self,
        profile: Profile,
        parts: Sequence[tuple[GroupKey, Sequence[QueuedPodInfo]]],
        plan: Callable[[], Plan],
    ) -> Sliced[Preemption | None]:
        """Evict the victims of groups that start together and have no place; `plan` says whether they have
        one in a trial. None where the cluster changed in a pause so that the search must be repeated."""
        scheduler = self._scheduler
        if DEFAULT_PREEMPTION not in profile.plugins:
            return Preemption(NOT_REGISTERED)
        groups: list[AnyPodGroup] = []
        for key, _ in parts:
            stored = scheduler.members.group(key)
            if stored is None:
                missing = f'podgroup.scheduling.k8s.io "{key.name}" not found'
                return Preemption(Status(Code.ERROR, f"failed to get pod group object: {missing}"))
            groups.append(stored)
        group, (key, pods) = groups[0], parts[0]
        args = group_args(profile, key)
        if any(each.topology_key for each in groups) and args.preempts_as_kube_scheduler:
            return Preemption(CONSTRAINED)
        members = [queued.pod for _, entries in parts for queued in entries]
        if any(pod.spec.preemption_policy == "Never" for pod in members):
            return Preemption(NEVER)
        priority = min(each.priority for each in groups)
        chosen: Victims | Status | None
        if args.preempts_as_kube_scheduler or len(parts) > 1:
            with scheduler.in_rehearsal():
                if args.preempts_as_kube_scheduler:
                    chosen = self._as_kube_scheduler(priority, plan)
                else:
                    keys = {each for each, _ in parts}
                    chosen = self._fewest_for_all(keys, priority, args.preserve_gangs, plan)
        else:
            chosen = yield from self._fewest(profile, key, priority, pods, args.preserve_gangs)
        if chosen is None:
            return None
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
        every = units_of(scheduler, pods, preserve_gangs=False, of_group=False)
        units = [unit for unit in every if unit.priority < priority]
        if not units:
            return NO_VICTIMS
        units.sort(key=lambda unit: unit.importance)
        violating, others = split_units_by_budgets(units, Budgets(scheduler.store.list(PodDisruptionBudget)))
        trial = PlannedTrial(scheduler, remember, self._undo_if_in_force)
        try:
            for unit in units:
                trial.remove_all(unit.pods)
            if not trial.fits():
                return last.status
            leaving = [unit for unit in (*violating, *others) if not _reprieved(trial, unit)]
        finally:
            trial.restore()
        victims = [pod for unit in units if unit in leaving for pod in unit.pods]
        return Victims(victims, [pod for unit in violating if unit in leaving for pod in unit.pods], None)

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
    ) -> Sliced[Victims | Status | None]:
        members, before = list(self._scheduler.members.pods(key)), self._position()
        candidates = self._candidates((key,), priority, preserve_gangs)
        if not candidates.units and not candidates.leaving:
            return NO_VICTIMS
        placements = [Placement("")]
        room = None
        with self._scheduler.in_rehearsal():
            if self._by_placement:
                generated = self._placements.generate(profile, key, pods)
                if isinstance(generated, Status):
                    return generated
                placements = list(generated)
            if alike([queued.pod for queued in pods]):
                room = measure(self._scheduler, profile, pods[0].pod)
        best, where = None, Placement("")
        for placement in placements:
            inside = candidates if placement.node_names is None else _within(candidates, placement.node_names)
            victims = yield from self._search(profile, placement, pods, inside, room)
            if victims is not None and (best is None or victims.cost < best.cost):
                best, where = victims, placement
        if best is not None:
            if room is None:  # there were no pauses
                return best
            if self._position() == before and list(self._scheduler.members.pods(key)) == members:
                return best
            return self._confirmed(profile, key, pods, where, priority, best)
        if not self._by_placement:
            return unschedulable(GROUP_UNSCHEDULABLE)
        first = f"first placement status: {GROUP_UNSCHEDULABLE}"
        return unschedulable(f"0/{len(placements)} placements are available, {first}")

    def _position(self) -> tuple[int, int]:
        """Another value means that nodes or pods on them have changed."""
        table = self._scheduler.cluster.table
        return table.pod_log.position, table.node_log.position

    def _confirmed(
        self,
        profile: Profile,
        key: GroupKey,
        pods: Sequence[QueuedPodInfo],
        placement: Placement,
        priority: int,
        found: Victims,
    ) -> Victims | None:
        """Victims that were found before the cluster changed; None where they would be others now."""
        scheduler = self._scheduler
        waiting = {p.uid for p in scheduler.members.pods(key) if scheduler.cluster.placed(p.uid) is None}
        current = [scheduler.cluster.placed(pod.uid) for pod in found.pods]
        if waiting != {queued.pod.uid for queued in pods}:
            return None
        if any(
            now is None or now.node_name != pod.node_name
            for now, pod in zip(current, found.pods, strict=True)
        ):
            return None
        with scheduler.in_rehearsal():
            room = measure(scheduler, profile, pods[0].pod)
        if room is None:
            return None
        needed = max(self._planner.missing(profile, pods[0].pod), 1)
        trial = CountedTrial(scheduler, room, self._placements.mask(placement), pods, needed)
        if trial.fits():
            return None
        for pod in scheduler.cluster.pods():
            if pod.terminating and pod.priority < priority:
                trial.remove(pod)
        if found.pods and trial.fits():
            return None
        for pod in found.pods:
            if not pod.terminating:
                trial.remove(pod)
        if not trial.fits():
            return None
        return Victims(found.pods, found.violating, trial.nodes(), found.cost)

    def _fewest_for_all(
        self, keys: Collection[GroupKey], priority: int, preserve_gangs: bool, plan: Callable[[], Plan]
    ) -> Victims | Status:
        """The fewest victims that let several groups in."""
        candidates = self._candidates(keys, priority, preserve_gangs)
        if not candidates.units and not candidates.leaving:
            return NO_VICTIMS
        trial = PlannedTrial(self._scheduler, plan, self._undo_if_in_force)
        budgets = Budgets(self._scheduler.store.list(PodDisruptionBudget))
        try:
            victims = finish(VictimSearch(candidates.units, trial, budgets).fewest(candidates.leaving))
        finally:
            trial.restore()
        return unschedulable(GROUP_UNSCHEDULABLE) if victims is None else victims

    def _candidates(self, keys: Collection[GroupKey], priority: int, preserve_gangs: bool) -> _Candidates:
        """The pods that may leave for groups of this priority, and those that are leaving.

        A group's members may have a lower priority than the group, and do not leave for each other: their
        controller would create them again, without end.
        """
        pods: list[PodInfo] = []
        leaving: list[PodInfo] = []
        for pod in self._scheduler.cluster.pods():
            if pod.terminating and pod.priority < priority:
                leaving.append(pod)
            elif pod.group not in keys:
                pods.append(pod)
        units: list[Unit] = []
        for unit in units_of(self._scheduler, pods, preserve_gangs=preserve_gangs, of_group=True):
            if unit.priority < priority:
                units.append(unit)
            elif unit.surplus:  # it cannot leave as a whole
                group = self._group_of(unit)
                lower = [pod for pod in unit.pods if priority_in(group, pod) < priority]
                lower.sort(key=importance)
                units += [Unit([pod], pod.priority) for pod in lower[-unit.surplus :]]
        return _Candidates(units, leaving)

    def _group_of(self, unit: Unit) -> AnyPodGroup | None:
        key = unit.pods[0].group
        return None if key is None else self._scheduler.members.group(key)

    def _search(
        self,
        profile: Profile,
        placement: Placement,
        pods: Sequence[QueuedPodInfo],
        candidates: _Candidates,
        room: Room | None,
    ) -> Sliced[Victims | None]:
        """The fewest victims that let the group into a placement.

        Where these are counted, the cluster is not touched, and the search may pause.
        """
        scheduler, mask = self._scheduler, self._placements.mask(placement)
        budgets = Budgets(scheduler.store.list(PodDisruptionBudget))
        if room is not None:
            needed = max(self._planner.missing(profile, pods[0].pod), 1)
            counted = CountedTrial(scheduler, room, mask, pods, needed)
            yield
            search = VictimSearch(candidates.units, counted, budgets)
            return (yield from search.fewest(candidates.leaving))
        planned = PlannedTrial(
            scheduler, lambda: self._planner.plan(profile, pods, mask, preempt=False), self._planner.undo
        )
        with scheduler.in_rehearsal():
            try:
                return finish(VictimSearch(candidates.units, planned, budgets).fewest(candidates.leaving))
            finally:
                planned.restore()


def _reprieved(trial: PlannedTrial, unit: Unit) -> bool:
    """Put a unit back where the group still fits; whether it does."""
    for pod in unit.pods:
        trial.put_back(pod)
    fits = trial.fits()
    if not fits:
        trial.remove_all(unit.pods)
    return fits


def _within(candidates: _Candidates, names: frozenset[str]) -> _Candidates:
    return _Candidates(
        [unit for unit in candidates.units if any(pod.node_name in names for pod in unit.pods)],
        [pod for pod in candidates.leaving if pod.node_name in names],
    )
