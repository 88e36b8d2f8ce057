"""Which pods belong to which group, and how many of them have a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from mooring.api.times import parse_time
from mooring.core.groups.dialects import DIALECTS, AnyPodGroup
from mooring.core.queue.sorting import SortKey
from mooring.framework.plugin import QueuedPod
from mooring.framework.pod import GroupKey, PodInfo
from mooring.state.cluster import ClusterState
from mooring.state.store import ObjectStore

NO_PODS: Mapping[str, PodInfo] = {}


class _Aged(NamedTuple):
    """A queued pod with the age of its group."""

    pod: PodInfo
    timestamp: float
    attempts: int


class GroupWait(msgspec.Struct):
    """A group that waits for room: since when, and when it was tried last."""

    since: float
    last_failure: float
    reported: bool = False  # whether it has been reported that it takes too long
    reserves: bool = False  # whether nodes are kept for it


class GroupMembers:
    """The live pods of each group: those to be scheduled here, and all on nodes."""

    def __init__(self, cluster: ClusterState, store: ObjectStore) -> None:
        self._cluster = cluster
        self._store = store
        self.broken: set[GroupKey] = set()  # gangs that run in part, fewer than minCount: repaired first
        self._pods: dict[GroupKey, dict[str, PodInfo]] = {}
        self.waits: dict[GroupKey, GroupWait] = {}  # of groups whose last attempt failed
        self._gated: Counter[GroupKey] = Counter()  # members that have scheduling gates

    def put(self, pod: PodInfo) -> None:
        if pod.group is None:
            return
        pods = self._pods.setdefault(pod.group, {})
        self._count_gated(pods.get(pod.uid), -1)
        self._count_gated(pod, 1)
        pods[pod.uid] = pod

    def remove(self, pod: PodInfo) -> None:
        if pod.group is not None and pod.group in self._pods:
            pods = self._pods[pod.group]
            self._count_gated(pods.pop(pod.uid, None), -1)
            if not pods:
                del self._pods[pod.group]
                self.waits.pop(pod.group, None)

    def _count_gated(self, pod: PodInfo | None, change: int) -> None:
        if pod is not None and pod.group is not None and pod.spec.scheduling_gates:
            self._gated[pod.group] += change
            if not self._gated[pod.group]:
                del self._gated[pod.group]

    def group(self, key: GroupKey) -> AnyPodGroup | None:
        """The PodGroup object, if it exists."""
        model: type[AnyPodGroup] = DIALECTS[key.api_group].resource.model
        return self._store.get(model, key.name, key.namespace)

    def check(self, group: GroupKey) -> bool:
        """Note whether a gang runs in part after members came or went; whether that is new."""
        placed = self.scheduled(group)
        stored = self.group(group) if placed else None
        minimum = 0 if stored is None else stored.min_count or 0
        is_broken = 0 < placed < minimum
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
