"""Events in: what each added, changed or deleted object means for the state and the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.core.event_map import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    node_update_events,
    pod_update_events,
)
from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.pod import PodInfo

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

# Kinds whose changes may help a pending pod; changes of other kinds never requeue anything.
_EVENT_KINDS: dict[type[KubeObject], str] = {
    PersistentVolume: Resource.PERSISTENT_VOLUME,
    PersistentVolumeClaim: Resource.PERSISTENT_VOLUME_CLAIM,
    StorageClass: Resource.STORAGE_CLASS,
    CSINode: Resource.CSI_NODE,
    CSIDriver: Resource.CSI_DRIVER,
    CSIStorageCapacity: Resource.CSI_STORAGE_CAPACITY,
    VolumeAttachment: Resource.VOLUME_ATTACHMENT,
}


class Intake:
    """Routes objects: assigned pods to the state, pending ones of our profiles to the queue."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._cluster = scheduler.cluster
        self._queue = scheduler.queue
        self._pods: dict[str, PodInfo] = {}  # every live pod that is ours or on a node, as last seen

    def pod(self, uid: str) -> PodInfo | None:
        """A pod as last seen; None once it is gone."""
        return self._pods.get(uid)

    def apply(self, obj: KubeObject) -> None:
        if isinstance(obj, Pod):
            self._apply_pod(obj)
        elif isinstance(obj, Node):
            self._apply_node(obj)
        else:
            old = self._scheduler.store.put(obj)
            self._object_event(obj, Action.ADD if old is None else Action.UPDATE, old, obj)

    def delete(self, obj: KubeObject) -> None:
        if isinstance(obj, Pod):
            self._delete_pod(obj.uid)
        elif isinstance(obj, Node):
            info = self._cluster.node(obj.name)
            if info is not None:
                self._queue.move_all(NODE_DELETE, info.node, None)
                self._cluster.remove_node(obj.name)
        else:
            old = self._scheduler.store.remove(type(obj), obj.key)
            if old is not None:
                self._object_event(obj, Action.DELETE, old, None)

    def _object_event(
        self, obj: KubeObject, action: Action, old: KubeObject | None, new: KubeObject | None
    ) -> None:
        resource = _EVENT_KINDS.get(type(obj))
        if resource is not None:
            self._queue.move_all(ClusterEvent(resource, action), old, new)

    # ---- nodes

    def _apply_node(self, node: Node) -> None:
        known = self._cluster.node(node.name)
        if known is None:
            self._cluster.add_node(node)
            self._queue.move_all(NODE_ADD, None, node)
            return
        old = known.node
        if self._cluster.update_node(node):
            for event in node_update_events(old, node):
                self._queue.move_all(event, old, node)

    # ---- pods

    def _apply_pod(self, pod: Pod) -> None:
        if pod.finished:
            self._delete_pod(pod.uid)
            return
        old = self._pods.get(pod.uid)
        ours = pod.spec.scheduler_name in self._scheduler.profiles
        if not pod.spec.node_name and not ours:
            return
        info = self._cluster.info(pod)
        self._pods[pod.uid] = info
        if info.node_name:
            self._apply_assigned(old, info)
        elif old is None:
            self._queue.add(info)
        else:
            self._update_pending(old, info)
        if info.terminating:
            self._scheduler.eviction_done(pod.uid)

    def _apply_assigned(self, old: PodInfo | None, info: PodInfo) -> None:
        was_assigned = old is not None and bool(old.node_name)
        if not was_assigned:
            self._scheduler.abandon(info.uid)
        self._cluster.add_pod(info)
        if was_assigned:
            assert old is not None
            for event in pod_update_events(old, info):
                self._queue.move_all(event, old, info)
            return
        if old is not None:
            self._queue.delete(old)
        self._queue.move_all(ASSIGNED_POD_ADD, None, info)

    def _update_pending(self, old: PodInfo, info: PodInfo) -> None:
        if self._cluster.is_assumed(info.uid):
            if info.terminating and not old.terminating:
                self._assumed_deleted(info)
            return
        self._queue.update(old, info)
        nominated = old.status.nominated_node_name
        if nominated and nominated != info.status.nominated_node_name:
            self._queue.move_all(ASSIGNED_POD_DELETE, old, None, _no_more_important(old))

    def _delete_pod(self, uid: str) -> None:
        old = self._pods.pop(uid, None)
        if old is None:
            return
        self._scheduler.eviction_done(uid)
        self._scheduler.preempting.pop(uid, None)
        if old.node_name:
            self._cluster.remove_pod(uid)
            self._queue.move_all(ASSIGNED_POD_DELETE, old, None)
            return
        self._queue.delete(old)
        if self._cluster.is_assumed(uid):
            self._assumed_deleted(old)
        elif old.status.nominated_node_name:
            self._queue.move_all(ASSIGNED_POD_DELETE, old, None, _no_more_important(old))

    def _assumed_deleted(self, pod: PodInfo) -> None:
        """A pod goes away while it is being bound: what it took is free again."""
        assumed = self._cluster.placed(pod.uid)
        assert assumed is not None
        held = self._scheduler.waiting.get(pod.uid)
        if held is not None:
            held.reject("", "removed")
        else:
            self._cluster.forget(pod.uid)
        self._queue.move_all(ASSIGNED_POD_DELETE, assumed, None)


def _no_more_important(pod: PodInfo) -> Callable[[PodInfo], bool]:
    return lambda other: other.priority <= pod.priority
