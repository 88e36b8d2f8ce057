"""Events in: what each added, changed or deleted object means for the state and the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mooring.api.coscheduling import PodGroup as CoschedulingGroup
from mooring.api.devices import DeviceClass
from mooring.api.groups import PodGroup
from mooring.api.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    ApiResource,
)
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.core.event_map import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_POD_DELETE,
    UNSCHEDULABLE_POD_UPDATE,
    node_update_events,
    pod_update_events,
)
from mooring.core.groups.dialects import DIALECTS
from mooring.framework.events import Action, ClusterEvent
from mooring.framework.pod import COSCHEDULING_GROUP, GroupKey, PodInfo

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

# Kinds whose changes may help a pending pod; changes of other kinds never requeue anything.
_EVENT_KINDS: dict[type[KubeObject], str] = {
    resource.model: resource.group_kind
    for resource in (
        PERSISTENT_VOLUMES,
        PERSISTENT_VOLUME_CLAIMS,
        STORAGE_CLASSES,
        CSI_NODES,
        CSI_DRIVERS,
        CSI_STORAGE_CAPACITIES,
        VOLUME_ATTACHMENTS,
        RESOURCE_CLAIMS,
        RESOURCE_SLICES,
        DEVICE_CLASSES,
        POD_GROUPS,
    )
}

Events = Sequence[ClusterEvent]
_NO_EVENTS: Events = ()
_NODE_ADDED: Events = (NODE_ADD,)
_NODE_DELETED: Events = (NODE_DELETE,)
_POD_ADDED: Events = (UNSCHEDULABLE_POD_ADD,)
_POD_UPDATED: Events = (UNSCHEDULABLE_POD_UPDATE,)
_POD_DELETED: Events = (UNSCHEDULABLE_POD_DELETE,)
_ASSIGNED_POD_ADDED: Events = (ASSIGNED_POD_ADD,)
_ASSIGNED_POD_DELETED: Events = (ASSIGNED_POD_DELETE,)
_POD_ASSIGNED: Events = (UNSCHEDULABLE_POD_DELETE, ASSIGNED_POD_ADD)


class Intake:
    """Routes objects: assigned pods to the state, pending ones of our profiles to the queue.

    `apply` and `delete` return the events of a change, for metrics.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._cluster = scheduler.cluster
        self._queue = scheduler.queue
        self._waiting = scheduler.waiting
        self._custom = {resource.model: resource.name for resource in kinds_of_plugins(scheduler)}
        self._announces_pods = scheduler.feature_gates.is_enabled("GangScheduling") or any(
            "Coscheduling" in profile.plugins for profile in scheduler.profiles.values()
        )
        self._pods: dict[str, PodInfo] = {}  # every live pod that is ours or on a node, as last seen

    def pod(self, uid: str) -> PodInfo | None:
        """A pod as last seen; None once it is gone."""
        return self._pods.get(uid)

    def pod_named(self, group: GroupKey, key: str) -> PodInfo | None:
        """A member of a group, or of one that starts with it, by its "namespace/name"."""
        members = self._scheduler.members
        pods = (pod for each in members.together(group) for pod in members.pods(each))
        return next((pod for pod in pods if pod.key == key), None)

    def pods(self) -> Iterator[PodInfo]:
        """Every live pod that is ours or on a node."""
        return iter(self._pods.values())

    def apply(self, obj: KubeObject) -> Events:
        if isinstance(obj, Pod):
            return self._apply_pod(obj)
        if isinstance(obj, Node):
            return self._apply_node(obj)
        old = self._scheduler.store.put(obj)
        self._note_change(old, obj)
        return self._object_event(obj, Action.ADD if old is None else Action.UPDATE, old, obj)

    def delete(self, obj: KubeObject) -> Events:
        if isinstance(obj, Pod):
            return self._delete_pod(obj.uid)
        if isinstance(obj, Node):
            info = self._cluster.node(obj.name)
            if info is None:
                return _NO_EVENTS
            self._publish(NODE_DELETE, info.node, None)
            self._cluster.remove_node(obj.name)
            return _NODE_DELETED
        old = self._scheduler.store.remove(type(obj), obj.key)
        self._note_change(old, None)
        return _NO_EVENTS if old is None else self._object_event(obj, Action.DELETE, old, None)

    def _note_change(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Update what is derived from an object."""
        obj = old if new is None else new
        if isinstance(obj, DeviceClass):
            self._scheduler.forget_shapes()
        elif isinstance(obj, PodGroup):
            assert old is None or isinstance(old, PodGroup)
            self._scheduler.members.sets.replace(old, None if new is None else obj)
            self._scheduler.members.group_changed(GroupKey(obj.namespace, obj.name))
        elif isinstance(obj, CoschedulingGroup):
            key = GroupKey(obj.namespace, obj.name, COSCHEDULING_GROUP)
            self._scheduler.members.group_changed(key)

    def _publish(
        self,
        event: ClusterEvent,
        old: object,
        new: object,
        precheck: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Retry the pods that the event may help, and pass it to the plugins that hold pods in permit."""
        self._queue.move_all(event, old, new, precheck)
        if self._waiting:
            self._waiting.observe(event, old, new)

    def _object_event(
        self, obj: KubeObject, action: Action, old: KubeObject | None, new: KubeObject | None
    ) -> Events:
        resource = _EVENT_KINDS.get(type(obj)) or self._custom.get(type(obj))
        if resource is None:
            return _NO_EVENTS
        event = ClusterEvent(resource, action)
        self._publish(event, old, new)
        return (event,)

    # ---- nodes

    def _apply_node(self, node: Node) -> Events:
        info = self._cluster.node(node.name)
        if info is None:
            self._cluster.add_node(node)
            self._publish(NODE_ADD, None, node)
            return _NODE_ADDED
        old = info.node
        if not self._cluster.update_node(node):
            return _NO_EVENTS
        events = node_update_events(old, node)
        for event in events:
            self._publish(event, old, node)
        return events

    # ---- pods

    def _apply_pod(self, pod: Pod) -> Events:
        uid = pod.metadata.uid
        if pod.finished:
            return self._delete_pod(uid)
        old = self._pods.get(uid)
        ours = pod.spec.scheduler_name in self._scheduler.profiles
        if not pod.spec.node_name and not ours:
            return _NO_EVENTS
        info = self._cluster.info(pod)
        self._pods[uid] = info
        self._scheduler.members.put(info)
        if info.node_name:
            events = self._apply_assigned(old, info)
        elif old is None:
            self._queue.add(info)
            events = _POD_ADDED
            if self._announces_pods:
                self._publish(UNSCHEDULABLE_POD_ADD, None, info)
            if info.group is not None:
                self._scheduler.group_waits.joined(info.group)
        else:
            self._update_pending(old, info)
            events = _POD_UPDATED
        if info.group is not None and info.node_name:
            self.check_group(info.group)
        if info.terminating:
            self._scheduler.evictions.done(uid)
        return events

    def check_group(self, group: GroupKey) -> None:
        """Have a gang that runs in part repaired before anything else is scheduled."""
        members, plugin = self._scheduler.members, DIALECTS[group.api_group].plugin
        if not any(plugin in profile.plugins for profile in self._scheduler.profiles.values()):
            return  # without the plugin its minCount means nothing
        for each in members.together(group):
            if members.check(each):
                self._queue.reorder(members.pods(each))
                if each not in members.broken:
                    self._scheduler.group_waits.completed(each)

    def _apply_assigned(self, old: PodInfo | None, info: PodInfo) -> Events:
        was_assigned = old is not None and bool(old.node_name)
        if not was_assigned:
            self._scheduler.bindings.abandon(info.uid)
        self._cluster.add_pod(info)
        if was_assigned:
            assert old is not None
            events = pod_update_events(old, info)
            for event in events:
                self._publish(event, old, info)
            return events
        if old is not None:
            self._queue.delete(old)
        self._publish(ASSIGNED_POD_ADD, None, info)
        return _ASSIGNED_POD_ADDED if old is None else _POD_ASSIGNED

    def _update_pending(self, old: PodInfo, info: PodInfo) -> None:
        if self._cluster.is_assumed(info.uid):
            if info.terminating and not old.terminating:
                self._assumed_deleted(info)
            elif self._waiting:
                self._waiting.observe(UNSCHEDULABLE_POD_UPDATE, old, info)
            return
        self._queue.update(old, info)
        nominated = old.status.nominated_node_name
        if nominated and nominated != info.status.nominated_node_name:
            self._publish(ASSIGNED_POD_DELETE, old, None, _no_more_important(old))

    def _delete_pod(self, uid: str) -> Events:
        old = self._pods.pop(uid, None)
        if old is None:
            return _NO_EVENTS
        self._scheduler.members.remove(old)
        self._scheduler.evictions.done(uid)
        self._scheduler.evictions.ended(uid, "")
        if old.node_name:
            self._cluster.remove_pod(uid)
            if old.group is not None:
                self.check_group(old.group)
            self._publish(ASSIGNED_POD_DELETE, old, None)
            return _ASSIGNED_POD_DELETED
        self._queue.delete(old)
        if old.group is not None:  # its siblings have one pod less to find room for
            members = self._scheduler.members
            for each in members.together(old.group):
                self._queue.activate(pod for pod in members.pods(each) if not pod.node_name)
        if self._cluster.is_assumed(uid):
            self._assumed_deleted(old)
        elif old.status.nominated_node_name:
            self._publish(ASSIGNED_POD_DELETE, old, None, _no_more_important(old))
        return _POD_DELETED

    def _assumed_deleted(self, pod: PodInfo) -> None:
        """A pod goes away while it is being bound: what it took is free again."""
        assumed = self._cluster.placed(pod.uid)
        assert assumed is not None
        held = self._scheduler.waiting.get(pod.uid)
        if held is not None:
            held.reject("", "removed")
        else:
            self._cluster.forget(pod.uid)
        self._publish(ASSIGNED_POD_DELETE, assumed, None)


def kinds_of_plugins(scheduler: Scheduler) -> list[ApiResource[Any]]:
    """The kinds that plugins want watched, and those of enabled features."""
    plugins = (plugin for profile in scheduler.profiles.values() for plugin in profile.plugins.values())
    watched = [resource for plugin in plugins for resource in plugin.watches]
    if scheduler.feature_gates.is_enabled("GenericWorkload"):
        watched.append(POD_GROUPS)
    return list(dict.fromkeys(watched))


def _no_more_important(pod: PodInfo) -> Callable[[PodInfo], bool]:
    return lambda other: other.priority <= pod.priority
