"""Cluster events, and how a plugin says which of them may make a refused pod schedulable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from typing import Any

from mooring.framework.pod import GroupKey, PodInfo


class Action(IntFlag):
    """What happened to an object, with kube-scheduler's bit values."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE = 8188
    ALL = 8191


class Resource:
    """The kinds of objects that events speak of."""

    POD = "Pod"  # what plugins register; incoming events are one of the next two
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    WILDCARD = "*"


class Hint(Enum):
    """A hint's answer: is the pod worth another attempt after this event?"""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A kind of object and what happened to it."""

    resource: str
    action: Action
    label: str = ""  # how metrics name it; derived when empty
    name: str = field(init=False, repr=False, compare=False)  # "NodeAdd", "UnschedulableTimeout"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.label or self.resource + _action_name(self.action))

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether this registration covers an incoming event."""
        if self.resource == Resource.WILDCARD and self.action == Action.ALL:
            return True
        same = self.resource == incoming.resource or (
            self.resource == Resource.POD
            and incoming.resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)
        )
        return same and bool(self.action & incoming.action) and incoming.action <= self.action

    @property
    def wildcard(self) -> bool:
        return self.resource == Resource.WILDCARD and self.action == Action.ALL


def _action_name(action: Action) -> str:
    if action == Action.ALL:
        return "All"
    # A plugin may have written a bare number: a mistake, but not one to stumble over here.
    name: str | None = getattr(action, "name", str(action))
    return "".join(part.capitalize() for part in (name or "Update").split("_"))


# hint(pod, old, new): old is None for an addition, new is None for a deletion.
QueueingHint = Callable[[PodInfo, Any, Any], Hint]


@dataclass(frozen=True, slots=True)
class EventHint:
    """One registration: the event, the hint that looks closer (None: always worth a try), and the groups
    whose pods it is asked about (None: all pods)."""

    event: ClusterEvent
    hint: Callable[[PodInfo, Any, Any], Hint] | None = None
    groups: Callable[[Any, Any], Iterable[GroupKey]] | None = None


def requeue_on(
    resource: str,
    action: Action,
    hint: Callable[[PodInfo, Any, Any], Hint] | None = None,
    groups: Callable[[Any, Any], Iterable[GroupKey]] | None = None,
) -> EventHint:
    """Register an event after which a rejected pod is worth another attempt.

    requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)

    `hint` looks at the change and decides for each pod; without one, every rejected pod is retried. Where the
    change concerns only pods of some groups, `groups` names these, and the hint is asked about no other pod.
    """
    return EventHint(ClusterEvent(resource, action), hint, groups)
