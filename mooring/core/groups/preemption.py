"""Preemption for a whole group: which pods, anywhere in the cluster, must leave for the group to start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from mooring.api.workloads import PodDisruptionBudget
from mooring.core.groups.plan import DEFAULT_PREEMPTION, Plan, Planner
from mooring.core.queue import QueuedPodInfo
from mooring.framework.pod import GroupKey, PodInfo
from mooring.framework.status import SUCCESS, Code, Status, unschedulable
from mooring.plugins.default_preemption.victims import split_by_budgets

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

NOT_REGISTERED = unschedulable(
    "default preemption plugin is not registered, workload aware preemption is disabled"
)
CONSTRAINED = unschedulable(
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)
NEVER = unschedulable("not eligible due to preemptionPolicy=Never.")
NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "No preemption victims found for incoming preemptor")


class Unit(msgspec.Struct, eq=False):
    """Pods that leave together: a whole group, or one pod."""

    pods: list[PodInfo]
    priority: int

    @property
    def importance(self) -> tuple[int, bool, int, float]:
        """Sort key, most important first: priority, groups, larger groups, older ones."""
        first = self.pods[0]
        in_group = first.group is not None
        return -self.priority, not in_group, -len(self.pods) if in_group else 0, first.start_time


class GroupPreemption:
    """Finds the victims of a group: all candidates are removed, and added back one by one where the group
    still fits."""

    def __init__(self, scheduler: Scheduler, planner: Planner) -> None:
        self._scheduler = scheduler
        self._planner = planner

    def run(
        self,
        key: GroupKey,
        pods: Sequence[QueuedPodInfo],
        plan: Callable[[], Plan],
        undo: Callable[[Plan], None],
    ) -> Status:
        scheduler = self._scheduler
        if DEFAULT_PREEMPTION not in scheduler.profiles[pods[0].pod.scheduler_name].plugins:
            return NOT_REGISTERED
        group = scheduler.members.group(key)
        if group is None:
            missing = f'podgroup.scheduling.k8s.io "{key.name}" not found'
            return Status(Code.ERROR, f"failed to get pod group object: {missing}")
        if group.topology_key:
            return CONSTRAINED
        if any(queued.pod.spec.preemption_policy == "Never" for queued in pods):
            return NEVER
        units = [unit for unit in self._units() if unit.priority < group.priority]
        if not units:
            return NO_VICTIMS

        def fits() -> Status:
            trial = plan()
            if trial.status.ok:
                undo(trial)
            return trial.status

        with scheduler.in_rehearsal():
            victims = self._victims(sorted(units, key=lambda unit: unit.importance), fits)
        if isinstance(victims, Status):
            return victims
        scheduler.evictions.preempt_for_group(group, [queued.pod for queued in pods], victims)
        return SUCCESS

    def _units(self) -> list[Unit]:
        """All pods on nodes, by node and pod name, in the units in which they leave."""
        as_one: dict[GroupKey, Unit] = {}
        units: list[Unit] = []
        for pod in sorted(self._scheduler.cluster.pods(), key=lambda pod: (pod.node_name, pod.name)):
            group = None
            if pod.group is not None:
                group = self._scheduler.members.group(pod.group)
            if pod.group is None or group is None or not group.disrupted_as_one:
                units.append(Unit([pod], pod.priority))
            elif pod.group in as_one:
                as_one[pod.group].pods.append(pod)
            else:
                as_one[pod.group] = Unit([pod], group.priority)
                units.append(as_one[pod.group])
        return units

    def _victims(self, units: Sequence[Unit], fits: Callable[[], Status]) -> list[PodInfo] | Status:
        cluster = self._scheduler.cluster
        lifted: dict[str, PodInfo] = {}
        try:
            for unit in units:
                for pod in unit.pods:
                    lifted[pod.uid] = cluster.lift(pod.uid)
            status = fits()
            if not status.ok:
                return status
            victims: list[Unit] = []
            for unit in self._in_order_of_reprieve(units):
                for pod in unit.pods:
                    cluster.put_back(lifted.pop(pod.uid))
                if not fits().ok:
                    victims.append(unit)
                    for pod in unit.pods:
                        lifted[pod.uid] = cluster.lift(pod.uid)
        finally:
            for pod in lifted.values():
                cluster.put_back(pod)
        return [pod for unit in sorted(victims, key=lambda unit: unit.importance) for pod in unit.pods]

    def _in_order_of_reprieve(self, units: Sequence[Unit]) -> list[Unit]:
        """Those whose eviction a budget forbids first, then the others."""
        budgets = self._scheduler.store.list(PodDisruptionBudget)
        violating, _ = split_by_budgets([pod for unit in units for pod in unit.pods], budgets)
        protected = {pod.uid for pod in violating}
        first = [unit for unit in units if any(pod.uid in protected for pod in unit.pods)]
        return first + [unit for unit in units if unit not in first]
