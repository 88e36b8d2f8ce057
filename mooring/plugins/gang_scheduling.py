"""GangScheduling: members of a gang start together, minCount of them or none."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.groups import PodGroup, Workload
from mooring.api.kinds import WORKLOADS
from mooring.api.times import parse_time
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.plugin import Plugin
from mooring.framework.pod import SCHEDULING_GROUP, GroupKey, PodInfo
from mooring.framework.status import Status, error, unresolvable, wait
from mooring.plugins.args import GangSchedulingArgs
from mooring.runtime.engine_handle import EngineHandle

PERMIT_TIMEOUT = 300.0
WORKLOAD_LAG = 2.0  # seconds by which the watch of Workloads may be behind that of PodGroups


class GangScheduling(Plugin[GangSchedulingArgs]):
    """Holds members back until minCount of them exist, and until minCount of them have a place.

    A group is planned as a whole, so no member waits in permit while others are looked at: `permit` only
    says whether the quorum is reached with this member.
    """

    name = "GangScheduling"
    watches = (WORKLOADS,)
    handle: EngineHandle

    TOO_FEW = unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
    WAITING = wait(PERMIT_TIMEOUT, "waiting for minCount pods from a gang to be scheduled")

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        key = pod.group
        if key is None or key.api_group != SCHEDULING_GROUP:
            return None
        group = self.handle.listers.get(PodGroup, key.name, key.namespace)
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue')
        if group.min_count is not None and self.handle.groups.size(key) < group.min_count:
            return self.TOO_FEW
        return self._wait_for_others(key, group)

    def _wait_for_others(self, key: GroupKey, group: PodGroup) -> Status | None:
        """Hold a group back until all groups that start together with it exist, with their members."""
        if group.template is None:
            return None
        workload = group.template.workload_name
        if self.handle.listers.get(Workload, workload, key.namespace) is None:
            # It existed when the group was created, and may say that others start with it.
            created = group.metadata.creation_timestamp
            end = parse_time(created) + WORKLOAD_LAG if created else 0.0
            if self.handle.now() < end:
                return unresolvable(f'waiting for workload "{workload}" to appear', not_before=end)
            return None
        for template in self.handle.groups.missing_templates(key):
            return unresolvable(f'waiting for a pod group of "{template}" of workload "{workload}" to appear')
        for other in self.handle.groups.together(key):
            if self.handle.groups.size(other) < self.handle.groups.minimum(other):
                name = f'pod group "{other.name}" of workload "{workload}"'
                return unresolvable(f"waiting for minCount pods from {name} to appear")
        return None

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        key = pod.group
        if key is None or key.api_group != SCHEDULING_GROUP:
            return None
        group = self.handle.listers.get(PodGroup, key.name, key.namespace)
        if group is None:
            missing = f'podgroup.scheduling.k8s.io "{key.name}" not found'
            return error(f"failed to get podGroup {key}: {missing}")
        if group.min_count is None or self.handle.groups.scheduled(key) >= group.min_count:
            return None
        return self.WAITING

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.POD, Action.ADD, self._after_pod_added, self._groups_of_added)
        changed = Action.ADD | Action.UPDATE
        yield requeue_on(Resource.POD_GROUP, changed, self._after_group_changed, self._groups_of_changed)
        yield requeue_on(WORKLOADS.name, Action.ALL, self._after_workload_changed)

    def _groups_of_added(self, old: PodInfo | None, new: PodInfo) -> Iterable[GroupKey]:
        # While members are missing, pre_enqueue refuses all of them: asking each about each is quadratic.
        if new.group is None or self.pre_enqueue(new) is not None:
            return ()
        return self.handle.groups.together(new.group)

    def _groups_of_changed(self, old: PodGroup | None, new: PodGroup) -> Iterable[GroupKey]:
        return self.handle.groups.together(GroupKey(new.namespace, new.name))

    def _after_pod_added(self, pod: PodInfo, old: PodInfo | None, new: PodInfo) -> Hint:
        if pod.group is None or new.group is None or not self._start_together(pod.group, new.group):
            return Hint.SKIP
        if new.node_name and self._has_quorum(pod.group):  # one more that runs helps no other
            return Hint.SKIP
        return Hint.SKIP if self.pre_enqueue(pod) is not None else Hint.QUEUE

    def _has_quorum(self, key: GroupKey) -> bool:
        group = self.handle.listers.get(PodGroup, key.name, key.namespace)
        return group is not None and self.handle.groups.scheduled(key) >= (group.min_count or 0)

    def _after_group_changed(self, pod: PodInfo, old: PodGroup | None, new: PodGroup) -> Hint:
        """A new group, or one whose spec changed: its status is written by this scheduler."""
        if pod.group is None or (old is not None and old.spec == new.spec):
            return Hint.SKIP
        changed = GroupKey(new.namespace, new.name)
        return Hint.QUEUE if self._start_together(pod.group, changed) else Hint.SKIP

    def _start_together(self, key: GroupKey, other: GroupKey) -> bool:
        return key == other or other in self.handle.groups.together(key)

    def _after_workload_changed(self, pod: PodInfo, old: Workload | None, new: Workload | None) -> Hint:
        """A Workload came or went, or its groups start together from now on, or no longer."""
        workload = new or old
        group = None if pod.group is None else self.handle.groups.group(pod.group)
        if workload is None or not isinstance(group, PodGroup) or group.template is None:
            return Hint.SKIP
        mine = (group.namespace, group.template.workload_name) == (workload.namespace, workload.name)
        same = old is not None and new is not None and old.starts_as_one == new.starts_as_one
        return Hint.QUEUE if mine and not same else Hint.SKIP
