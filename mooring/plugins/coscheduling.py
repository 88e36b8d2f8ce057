"""Coscheduling: the PodGroups of scheduler-plugins, with its arguments and texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mooring.api.coscheduling import POD_GROUP_LABEL, PodGroup
from mooring.api.kinds import COSCHEDULING_POD_GROUPS
from mooring.api.quantity import to_milli, to_value
from mooring.api.resources import CPU
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import IntArray, Nodes
from mooring.framework.plugin import Plugin, QueuedPod
from mooring.framework.pod import COSCHEDULING_GROUP, GroupKey, PodInfo
from mooring.framework.status import Status, skip, unresolvable, unschedulable, wait
from mooring.plugins.args import CoschedulingArgs
from mooring.runtime.amounts import wrap_int64
from mooring.runtime.engine_handle import EngineHandle

NOT_FOUND = "PodGroup not found"


def _lacking(amount: int, free: IntArray, own: Mapping[int, int]) -> int:
    """What nodes lack of an amount if the group's own pods leave; 0 as soon as some of them have enough."""
    if not own and not free.any():
        return max(amount, 0)
    for row, room in enumerate(free.tolist()):
        amount -= wrap_int64(room + own.get(row, 0))
        if amount <= 0:
            return 0
    return max(amount, 0)


class Coscheduling(Plugin[CoschedulingArgs]):
    """Starts minMember pods with the label of a PodGroup together, or none.

    A group is planned as a whole, so no pod waits in permit while others are looked at: `permit` only says
    whether the quorum is reached with this pod. Pods are held back before the queue, not in pre_filter as by
    scheduler-plugins, so that pods without siblings cost no attempts.
    """

    name = "Coscheduling"
    watches = (COSCHEDULING_POD_GROUPS,)
    handle: EngineHandle

    def __init__(self, args: CoschedulingArgs, handle: EngineHandle) -> None:
        super().__init__(args, handle)
        self._warned: set[GroupKey] = set()

    # ---- queue

    def sorts_before(self, a: QueuedPod, b: QueuedPod) -> bool:
        return self.sort_key(a) < self.sort_key(b)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float, str]:
        """Higher priority first, then older groups, which is what their pods have for a timestamp, then by
        name."""
        return -queued.pod.priority, queued.timestamp, queued.pod.key

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        key = pod.group
        if key is None:
            return None
        if key.api_group != COSCHEDULING_GROUP:
            self._warn_once(pod, key)
            return None
        group = self._group(pod)
        if group is None:
            return unresolvable(NOT_FOUND)
        siblings = self.handle.groups.size(key)
        if siblings < group.min_count:
            return unresolvable(
                f"pre-filter pod {pod.name} cannot find enough sibling pods, "
                f"current pods number: {siblings}, minMember of group: {group.min_count}"
            )
        if siblings - self.handle.groups.gated(key) < group.min_count:
            return unresolvable(
                f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup"
            )
        return None

    def _warn_once(self, pod: PodInfo, key: GroupKey) -> None:
        if POD_GROUP_LABEL in pod.labels and key not in self._warned:
            self._warned.add(key)
            note = f"spec.schedulingGroup is set: the label {POD_GROUP_LABEL} is ignored"
            self.handle.emit_event(pod, "Warning", "PodGroupLabelIgnored", "Scheduling", note)

    def _group(self, pod: PodInfo) -> PodGroup | None:
        key = pod.group
        if key is None or key.api_group != COSCHEDULING_GROUP:
            return None
        return self.handle.listers.get(PodGroup, key.name, key.namespace)

    # ---- scheduling cycle

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        group = self._group(pod)
        if group is None:
            return skip()
        assert pod.group is not None
        failed = self.handle.groups.last_failure(pod.group)
        if failed is not None and self.handle.now() < failed + self.args.pod_group_backoff_seconds:
            end = failed + self.args.pod_group_backoff_seconds
            return unresolvable(f"podGroup {pod.group} failed recently", not_before=end)
        if group.spec.min_resources:
            gap = self._resource_gap(group, pod.group, nodes)
            if gap:
                return unresolvable(f"resource gap: {gap}")
        return skip()

    def _resource_gap(self, group: PodGroup, key: GroupKey, nodes: Nodes) -> str:
        """What all nodes together lack for the group's minResources, or ""."""
        missing = {
            name: to_milli(amount) if name == CPU else to_value(amount)
            for name, amount in group.spec.min_resources.items()
        }
        missing["pods"] = group.min_count
        own = self._taken_by_members(key, nodes)
        free = nodes.free
        gap = {}
        for name, amount in missing.items():
            column = nodes.allowed_pods - nodes.pod_count if name == "pods" else free[name]
            lacking = _lacking(amount, column, own.get(name, {}))
            if lacking:
                gap[name] = lacking
        return " ".join(f"{name}:{gap[name]}{'m' if name == CPU else ''}" for name in sorted(gap))

    def _taken_by_members(self, key: GroupKey, nodes: Nodes) -> dict[str, Counter[int]]:
        """What members of the group that have nodes take there: by resource, then by row."""
        taken: dict[str, Counter[int]] = {}
        for member in self.handle.groups.scheduled_pods(key):
            row = nodes.index(member.node_name)
            if row is not None:
                for name, amount in {**member.shape.used, "pods": 1}.items():
                    taken.setdefault(name, Counter())[row] += amount
        return taken

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        key = pod.group
        if key is None or key.api_group != COSCHEDULING_GROUP:
            return None
        group = self._group(pod)
        if group is None:
            return unschedulable(NOT_FOUND)
        if self.handle.groups.scheduled(key) >= group.min_count:
            return None
        return wait(self.timeout(group), f"PodGroup {key} waits for places for {group.min_count} pods")

    def timeout(self, group: PodGroup) -> float:
        """How long a group may wait for places before that is reported."""
        seconds = group.spec.schedule_timeout_seconds
        return float(seconds if seconds else self.args.permit_waiting_time_seconds)

    # ---- events

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.POD, Action.ADD, self._after_pod_added, self._groups_of_added)
        groups, changed = COSCHEDULING_POD_GROUPS.name, Action.ADD | Action.UPDATE
        yield requeue_on(groups, changed, self._after_group_changed, self._groups_of_changed)
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, self._if_sized)
        yield requeue_on(Resource.ASSIGNED_POD, Action.DELETE, self._if_sized)

    def _groups_of_added(self, old: PodInfo | None, new: PodInfo) -> Iterable[GroupKey]:
        # While members are missing, pre_enqueue refuses all of them: asking each about each is quadratic.
        return () if new.group is None or self.pre_enqueue(new) is not None else (new.group,)

    def _groups_of_changed(self, old: PodGroup | None, new: PodGroup) -> Iterable[GroupKey]:
        return (GroupKey(new.namespace, new.name, COSCHEDULING_GROUP),)

    def _after_pod_added(self, pod: PodInfo, old: PodInfo | None, new: PodInfo) -> Hint:
        if pod.group is None or new.group != pod.group:
            return Hint.SKIP
        if new.node_name and self._has_quorum(pod.group):  # one more that runs helps no other
            return Hint.SKIP
        return Hint.SKIP if self.pre_enqueue(pod) is not None else Hint.QUEUE

    def _has_quorum(self, key: GroupKey) -> bool:
        group = self.handle.listers.get(PodGroup, key.name, key.namespace)
        return group is not None and self.handle.groups.scheduled(key) >= group.min_count

    def _after_group_changed(self, pod: PodInfo, old: PodGroup | None, new: PodGroup) -> Hint:
        """A new group, or one whose spec changed: a change of the status helps no pod."""
        mine = pod.group == GroupKey(new.namespace, new.name, COSCHEDULING_GROUP)
        return Hint.QUEUE if mine and (old is None or old.spec != new.spec) else Hint.SKIP

    def _if_sized(self, pod: PodInfo, old: object, new: object) -> Hint:
        """Room appeared, which matters here to groups with minResources only."""
        group = self._group(pod)
        return Hint.QUEUE if group is not None and group.spec.min_resources else Hint.SKIP
