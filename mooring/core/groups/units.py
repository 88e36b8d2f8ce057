"""Units of preemption: pods that leave together, because a gang without them would not run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from mooring.core.groups.dialects import AnyPodGroup
from mooring.framework.pod import GroupKey, PodInfo
from mooring.plugins.default_preemption.budgets import Budgets, Evictions

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


class Unit(msgspec.Struct, eq=False):
    """One pod, or members of a group. Of a group, `surplus` members may leave by themselves, or all."""

    pods: list[PodInfo]
    priority: int
    surplus: int = 0

    @property
    def importance(self) -> tuple[int, bool, int, float]:
        """Sort key, most important first: priority, groups, larger groups, older ones."""
        first = self.pods[0]
        in_group = first.group is not None
        return -self.priority, not in_group, -len(self.pods) if in_group else 0, first.start_time


def priority_in(group: AnyPodGroup | None, pod: PodInfo) -> int:
    """The priority of a member as a victim: that of its group, where the pod itself was given less."""
    return pod.priority if group is None or group.priority <= 0 else max(pod.priority, group.priority)


def units_of(
    scheduler: Scheduler, pods: Iterable[PodInfo], *, preserve_gangs: bool, of_group: bool
) -> list[Unit]:
    """Pods on nodes, by node and pod name, in the units in which they leave.

    `of_group` says whether a group's priority counts for each of its members, where theirs is lower.
    """
    groups: dict[GroupKey, AnyPodGroup | None] = {}
    as_one: dict[GroupKey, Unit] = {}
    units: list[Unit] = []
    for pod in sorted(pods, key=lambda pod: (pod.node_name, pod.name)):
        key = pod.group
        if key is None:
            units.append(Unit([pod], pod.priority))
            continue
        if key not in groups:
            groups[key] = scheduler.members.group(key)
        group = groups[key]
        priority = priority_in(group, pod) if of_group else pod.priority
        if key in as_one:
            unit = as_one[key]
            unit.pods.append(pod)
            if group is None or not group.disrupted_as_one:
                unit.priority = max(unit.priority, priority)
        elif group is not None and group.disrupted_as_one:
            as_one[key] = Unit([pod], group.priority)
            units.append(as_one[key])
        elif group is not None and preserve_gangs and group.min_count is not None:
            surplus = max(scheduler.members.scheduled(key) - group.min_count, 0)
            as_one[key] = Unit([pod], priority, surplus)
            units.append(as_one[key])
        else:
            units.append(Unit([pod], priority))
    return units


def split_units_by_budgets(units: Iterable[Unit], budgets: Budgets) -> tuple[list[Unit], list[Unit]]:
    """The units with a pod whose eviction some budget forbids, and the others. As in kube-scheduler, what
    follows the first violation in a unit does not use budgets up."""
    evictions = Evictions(budgets)
    violating: list[Unit] = []
    others: list[Unit] = []
    for unit in units:
        violates = any(True for pod in unit.pods for _ in evictions.violated(pod))
        (violating if violates else others).append(unit)
    return violating, others
