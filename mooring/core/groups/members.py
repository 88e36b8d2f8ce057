"""Which pods belong to which group, and how many of them have a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mooring.api.times import parse_time
from mooring.core.groups.dialects import DIALECTS, AnyPodGroup
from mooring.core.groups.sets import GroupSets
from mooring.core.queue.sorting import SortKey
from mooring.framework.plugin import QueuedPod
from mooring.framework.pod import GroupKey, PodInfo, Shape
from mooring.state.cluster import ClusterState
from mooring.state.store import ObjectStore

NO_PODS: Mapping[str, PodInfo] = {}


class _Aged(NamedTuple):
    """A queued pod with the age of its group."""

    pod: PodInfo
    timestamp: float
    attempts: int


class GroupKind(NamedTuple):
    """What decides whether the nodes have places for a group none of whose members has a node."""

    scheduler_name: str
    shape: Shape
    api_group: str
    is_constrained: bool
    minimum: int


class GroupWait(msgspec.Struct):
    """A group that waits for room: since when, and when it was tried last."""

    since: float
    last_failure: float
    reported: bool = False  # whether it has been reported that it takes too long
    reserves: bool = False  # whether nodes are kept for it
    kind: GroupKind | None = None  # where its members are all alike and none has a node
    waits_for: frozenset[str] = frozenset()  # plugins whose events retry it; none: its members changed since


class GroupMembers:
    """The live pods of each group: those to be scheduled here, and all on nodes."""

    def __init__(self, cluster: ClusterState, store: ObjectStore) -> None:
        self._cluster = cluster
        self._store = store
        self.sets = GroupSets(store)
        self.broken: set[GroupKey] = set()  # gangs that run in part, fewer than minCount: repaired first
        self._pods: dict[GroupKey, dict[str, PodInfo]] = {}
        self.waits: dict[GroupKey, GroupWait] = {}  # of groups whose last attempt failed
        self._gated: Counter[GroupKey] = Counter()  # members that have scheduling gates

    def put(self, pod: PodInfo) -> None:
        if pod.group is None:
            return
        pods = self._pods.setdefault(pod.group, {})
        old = pods.get(pod.uid)
        if old is None or old.shape is not pod.shape or old.terminating != pod.terminating:
            self._members_changed(pod.group)
        self._count_gated(old, -1)
        self._count_gated(pod, 1)
        pods[pod.uid] = pod

    def remove(self, pod: PodInfo) -> None:
        if pod.group is not None and pod.group in self._pods:
            pods = self._pods[pod.group]
            self._count_gated(pods.pop(pod.uid, None), -1)
            self._members_changed(pod.group)
            if not pods:
                del self._pods[pod.group]
                self.waits.pop(pod.group, None)

    def group_changed(self, group: GroupKey) -> None:
        """The object of a group came, changed or went."""
        wait = self.waits.get(group)
        if wait is not None:
            wait.kind = None

    def _members_changed(self, group: GroupKey) -> None:
        wait = self.waits.get(group)
        if wait is not None:
            wait.waits_for, wait.kind = frozenset(), None

    def _count_gated(self, pod: PodInfo | None, change: int) -> None:
        if pod is not None and pod.group is not None and pod.spec.scheduling_gates:
            self._gated[pod.group] += change
            if not self._gated[pod.group]:
                del self._gated[pod.group]

    def group(self, key: GroupKey) -> AnyPodGroup | None:
        """The PodGroup object, if it exists."""
        model: type[AnyPodGroup] = DIALECTS[key.api_group].resource.model
        return self._store.get(model, key.name, key.namespace)

    def together(self, group: GroupKey) -> Sequence[GroupKey]:
        """The groups that start together with this one, itself included."""
        return self.sets.together(group)

    def missing_templates(self, group: GroupKey) -> Sequence[str]:
        """The templates of groups that start together with this one and do not exist yet."""
        return self.sets.missing(group)

    def minimum(self, group: GroupKey) -> int:
        """How many members must have a node before any of the group, or of those that start with it."""
        stored = self.group(group)
        if stored is None:
            return 0
        if stored.min_count is None:
            return 1 if self.sets.workload(group) is not None else 0
        return stored.min_count

    def attempted_with(self, group: GroupKey) -> Sequence[GroupKey]:
        """The groups that are tried together with this one: those that start with it and lack members."""
        together = self.together(group)
        if len(together) == 1 or self.scheduled(group) >= self.minimum(group):
            return (group,)
        return [each for each in together if self.scheduled(each) < self.minimum(each)]

    def check(self, group: GroupKey) -> bool:
        """Note whether a gang runs in part after members came or went; whether that is new."""
        placed = any(self.scheduled(each) for each in self.together(group))
        is_broken = placed and self.scheduled(group) < self.minimum(group)
        if is_broken == (group in self.broken):
            return False
        (self.broken.add if is_broken else self.broken.discard)(group)
        return True

    def ordered(self, sort_key: SortKey) -> SortKey:
        """An order of the queue in which members of gangs that run in part come before all others, and those
        of other groups are as old as their groups."""

        def key(queued: QueuedPod) -> tuple[bool, Any, GroupKey | tuple[()]]:
            group = queued.pod.group
            if group is None:
                return True, sort_key(queued), ()
            stored = self.group(group)
            if stored is not None and stored.metadata.creation_timestamp:
                queued = _Aged(queued.pod, parse_time(stored.metadata.creation_timestamp), queued.attempts)
            return group not in self.broken, sort_key(queued), group

        return key

    def pods(self, group: GroupKey) -> Iterable[PodInfo]:
        return self._pods.get(group, NO_PODS).values()

    def keys(self) -> Iterable[GroupKey]:
        return self._pods.keys()

    def size(self, group: GroupKey) -> int:
        return len(self._pods.get(group, NO_PODS))

    def last_failure(self, group: GroupKey) -> float | None:
        """When the last attempt at the group failed; None where it did not."""
        wait = self.waits.get(group)
        return None if wait is None else wait.last_failure

    def gated(self, group: GroupKey) -> int:
        """How many members have scheduling gates."""
        return self._gated.get(group, 0)

    def scheduled(self, group: GroupKey) -> int:
        """How many members have a node, those assumed on one included."""
        return self._cluster.placed_by_group.get(group, 0)

    def scheduled_pods(self, group: GroupKey) -> list[PodInfo]:
        placed = (self._cluster.placed(pod.uid) for pod in self.pods(group))
        return [pod for pod in placed if pod is not None]
