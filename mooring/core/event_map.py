"""From changes of objects to cluster events, and which events plugins have registered for.

kube-scheduler distinguishes what changed in a pod or a node, so that an update retries only pods it may help.
"""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.meta import ResourceList
from mooring.api.objects import Node, PodStatus
from mooring.api.quantity import QuantityError, parse
from mooring.framework.events import Action, ClusterEvent, EventHint, Resource
from mooring.framework.plugin import Plugin, overrides
from mooring.framework.pod import PodInfo
from mooring.runtime.containment import CONTAINED, shown
from mooring.runtime.runners import PluginError, raised

ASSIGNED_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULABLE_POD_ADD = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.ADD)
UNSCHEDULABLE_POD_UPDATE = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE)
UNSCHEDULABLE_POD_DELETE = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.DELETE)
NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, Action.DELETE)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(Resource.WILDCARD, Action.ALL, "ForceActivate")

# The name under which refusals by extenders count, as if they were one plugin's.
EXTENDER = "Extender"

# What a plugin is woken by that can refuse a pod but does not say which events may help; extenders too.
# One registration per kind rather than (*, All), because that one also keeps the kinds' informers running.
ANY_EVENT: tuple[EventHint, ...] = tuple(
    EventHint(ClusterEvent(resource, Action.ALL))
    for resource in (
        Resource.POD,
        Resource.NODE,
        Resource.PERSISTENT_VOLUME,
        Resource.PERSISTENT_VOLUME_CLAIM,
        Resource.CSI_NODE,
        Resource.CSI_DRIVER,
        Resource.CSI_STORAGE_CAPACITY,
        Resource.STORAGE_CLASS,
        Resource.RESOURCE_CLAIM,
        Resource.DEVICE_CLASS,
    )
)

_REFUSING_POINTS = frozenset({"preEnqueue", "preFilter", "filter", "reserve", "permit"})
_NODE_TAINT = EventHint(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT))


# ---- registrations


def registrations(plugins: Iterable[Plugin], *, extenders: bool = False) -> dict[str, list[EventHint]]:
    """The events each plugin of one profile is woken by, for the queue; with a line for extenders if any."""
    events = {plugin.name: events_of(plugin) for plugin in plugins}
    if extenders:
        events[EXTENDER] = list(ANY_EVENT)
    return events


def events_of(plugin: Plugin) -> list[EventHint]:
    """What a plugin registers for; any event where it can refuse pods without saying what may help."""
    if overrides(type(plugin), "events_to_register"):
        try:
            hints = list(plugin.events_to_register())
            for hint in hints:
                if not isinstance(hint, EventHint):
                    raise TypeError(f"yielded {shown(hint)}; expected requeue_on(Resource.NODE, Action.ADD)")
            return hints
        except CONTAINED as exc:
            message = f'plugin "{plugin.name}": events_to_register: {raised(plugin.name, "start-up", exc)}'
            raise PluginError(plugin.name, message) from exc
    return list(ANY_EVENT) if plugin.extension_points & _REFUSING_POINTS else []


def with_node_taint(hints: Iterable[EventHint]) -> list[EventHint]:
    """One plugin's registrations, completed with Node/UpdateNodeTaint where it listens for new nodes only.

    A node usually joins with a not-ready taint: pods that wait for nodes must be retried when the taint is
    removed, even if the plugin did not register that.
    """
    hints = list(hints)
    actions = Action(0)
    for hint in hints:
        if hint.event.resource == Resource.NODE:
            actions |= hint.event.action
    if actions & Action.ADD and not actions & Action.UPDATE_NODE_TAINT:
        hints.append(_NODE_TAINT)
    return hints


# ---- pods


def _updates(resource: str, *actions: Action) -> dict[Action, ClusterEvent]:
    return {action: ClusterEvent(resource, action) for action in actions}


_POD_UPDATES = {
    resource: _updates(
        resource,
        Action.UPDATE_POD_LABEL,
        Action.UPDATE_POD_SCALE_DOWN,
        Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        Action.UPDATE_POD_TOLERATION,
        Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        Action.UPDATE,
    )
    for resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)
}


def pod_update_events(old: PodInfo, new: PodInfo) -> list[ClusterEvent]:
    """What changed in a pod, in kube-scheduler's order; the plain Update event where nothing specific did."""
    events = _POD_UPDATES[Resource.ASSIGNED_POD if new.node_name else Resource.UNSCHEDULABLE_POD]
    changes: list[ClusterEvent] = []
    if old.labels != new.labels:
        changes.append(events[Action.UPDATE_POD_LABEL])
    if old.shape is not new.shape and _scaled_down(old, new):
        changes.append(events[Action.UPDATE_POD_SCALE_DOWN])
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        changes.append(events[Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED])
    # Tolerations can be added, never altered nor removed, so their number tells.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        changes.append(events[Action.UPDATE_POD_TOLERATION])
    if _generated_claims(old.status) != _generated_claims(new.status):
        changes.append(events[Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM])
    return changes or [events[Action.UPDATE]]


def _scaled_down(old: PodInfo, new: PodInfo) -> bool:
    """Whether some resource counts for less than before, or for nothing any more."""
    after = new.shape.used
    return any(name not in after or after[name] < amount for name, amount in old.shape.used.items())


def _generated_claims(status: PodStatus) -> tuple[object, object]:
    return status.resource_claim_statuses, status.extended_resource_claim_status


# ---- nodes

_NODE_UPDATES = _updates(
    Resource.NODE,
    Action.UPDATE_NODE_ALLOCATABLE,
    Action.UPDATE_NODE_LABEL,
    Action.UPDATE_NODE_TAINT,
    Action.UPDATE_NODE_CONDITION,
    Action.UPDATE_NODE_ANNOTATION,
    Action.UPDATE_NODE_DECLARED_FEATURE,
)


def node_update_events(old: Node, new: Node) -> list[ClusterEvent]:
    """What changed in a node, in kube-scheduler's order; nothing for heartbeats, images and cordoning."""
    events = _NODE_UPDATES
    changes: list[ClusterEvent] = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        changes.append(events[Action.UPDATE_NODE_TAINT])
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        changes.append(events[Action.UPDATE_NODE_ALLOCATABLE])
    if old.metadata.labels != new.metadata.labels:
        changes.append(events[Action.UPDATE_NODE_LABEL])
    if old.spec.taints != new.spec.taints:
        changes.append(events[Action.UPDATE_NODE_TAINT])
    if _condition_statuses(old) != _condition_statuses(new):
        changes.append(events[Action.UPDATE_NODE_CONDITION])
    if old.metadata.annotations != new.metadata.annotations:
        changes.append(events[Action.UPDATE_NODE_ANNOTATION])
    if old.status.declared_features != new.status.declared_features:
        changes.append(events[Action.UPDATE_NODE_DECLARED_FEATURE])
    return changes


def _same_amounts(old: ResourceList, new: ResourceList) -> bool:
    """Whether two resource lists mean the same: "1" and "1000m" do."""
    if old == new:
        return True
    if old.keys() != new.keys():
        return False
    try:
        return all(parse(old[name]) == parse(new[name]) for name in old)
    except QuantityError:
        return False  # told apart by text; who reads the amount reports the error


def _condition_statuses(node: Node) -> dict[str, str]:
    """The conditions without their heartbeats."""
    return {condition.type: condition.status for condition in node.status.conditions}
