"""Which pods belong to which group, and how many of them have a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.api.groups import PodGroup
from mooring.api.objects import Pod
from mooring.core.queue.sorting import SortKey
from mooring.framework.pod import GroupKey, PodInfo
from mooring.state.cluster import ClusterState
from mooring.state.store import ObjectStore

NO_PODS: Mapping[str, PodInfo] = {}


def native_group(pod: Pod) -> GroupKey | None:
    """The PodGroup that spec.schedulingGroup names."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return None
    return GroupKey(pod.metadata.namespace, group.pod_group_name)


class GroupMembers:
    """The live pods of each group: those to be scheduled here, and all on nodes."""

    def __init__(self, cluster: ClusterState, store: ObjectStore) -> None:
        self._cluster = cluster
        self._store = store
        self.broken: set[GroupKey] = set()  # gangs that run in part, fewer than minCount: repaired first
        self._pods: dict[GroupKey, dict[str, PodInfo]] = {}

    def put(self, pod: PodInfo) -> None:
        if pod.group is not None:
            self._pods.setdefault(pod.group, {})[pod.uid] = pod

    def remove(self, pod: PodInfo) -> None:
        if pod.group is not None and pod.group in self._pods:
            pods = self._pods[pod.group]
            pods.pop(pod.uid, None)
            if not pods:
                del self._pods[pod.group]

    def check(self, group: GroupKey) -> bool:
        """Note whether a gang runs in part after members came or went; whether that is new."""
        placed = self.scheduled(group)
        stored = self._store.get(PodGroup, group.name, group.namespace) if placed else None
        minimum = 0 if stored is None else stored.min_count or 0
        is_broken = 0 < placed < minimum
        if is_broken == (group in self.broken):
            return False
        (self.broken.add if is_broken else self.broken.discard)(group)
        return True

    def broken_first(self, sort_key: SortKey) -> SortKey:
        """An order of the queue in which members of gangs that run in part come before all others."""
        return lambda queued: (queued.pod.group not in self.broken, sort_key(queued))

    def pods(self, group: GroupKey) -> Iterable[PodInfo]:
        return self._pods.get(group, NO_PODS).values()

    def keys(self) -> Iterable[GroupKey]:
        return self._pods.keys()

    def size(self, group: GroupKey) -> int:
        return len(self._pods.get(group, NO_PODS))

    def scheduled(self, group: GroupKey) -> int:
        """How many members have a node, those assumed on one included."""
        return self._cluster.placed_by_group.get(group, 0)

    def scheduled_pods(self, group: GroupKey) -> list[PodInfo]:
        placed = (self._cluster.placed(pod.uid) for pod in self.pods(group))
        return [pod for pod in placed if pod is not None]
