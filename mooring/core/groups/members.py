"""Which pods belong to which group, and how many of them have a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.api.objects import Pod
from mooring.framework.pod import GroupKey, PodInfo
from mooring.state.cluster import ClusterState

NO_PODS: Mapping[str, PodInfo] = {}


def native_group(pod: Pod) -> GroupKey | None:
    """The PodGroup that spec.schedulingGroup names."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return None
    return GroupKey(pod.metadata.namespace, group.pod_group_name)


class GroupMembers:
    """The live pods of each group: those to be scheduled here, and all on nodes."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
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
