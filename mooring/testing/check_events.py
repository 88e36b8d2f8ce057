"""events_to_register: registrations that make sense, and hints that answer about all sorts of objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import product
from typing import Any

from msgspec.structs import replace

from mooring.api.decode import load_manifests
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
from mooring.config.enabling import PluginArgs
from mooring.framework.events import Action, ClusterEvent, EventHint, Hint, Resource
from mooring.framework.plugin import Plugin, overrides
from mooring.testing.answers import Place
from mooring.testing.nodes import make_node
from mooring.testing.pods import make_pod
from mooring.testing.subject import Subject, cluster_for

RESOURCES = frozenset(value for name, value in vars(Resource).items() if name.isupper())

_KINDS: dict[str, type[KubeObject]] = {
    Resource.PERSISTENT_VOLUME: PersistentVolume,
    Resource.PERSISTENT_VOLUME_CLAIM: PersistentVolumeClaim,
    Resource.STORAGE_CLASS: StorageClass,
    Resource.CSI_NODE: CSINode,
    Resource.CSI_DRIVER: CSIDriver,
    Resource.CSI_STORAGE_CAPACITY: CSIStorageCapacity,
    Resource.VOLUME_ATTACHMENT: VolumeAttachment,
}

_MORE_OBJECTS = """
apiVersion: v1
kind: List
items:
- {apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: csi.example.com}}
- apiVersion: storage.k8s.io/v1
  kind: CSIStorageCapacity
  metadata: {name: some}
  storageClassName: late
  capacity: 100Gi
- apiVersion: storage.k8s.io/v1
  kind: VolumeAttachment
  metadata: {name: one}
  spec: {attacher: csi.example.com, nodeName: a-1, source: {persistentVolumeName: pv-1}}
"""

Change = tuple[Any, Any]  # an object before and after; None where it was not, or is no more


def check_registrations(cls: type[Plugin], args: PluginArgs | None) -> None:
    """Before all else: a scheduler is made of what is registered."""
    if not overrides(cls, "events_to_register"):
        return
    silent: type[Plugin] = type(cls.__name__, (cls,), {"events_to_register": lambda self: []})
    plugin = cluster_for(silent, args).plugin(silent)
    place = Place(cls.name, "events_to_register")
    try:
        registered = list(cls.events_to_register(plugin))
    except Exception as exc:
        raise AssertionError(f"{place}: raised {type(exc).__name__}: {exc}") from exc
    for each in registered:
        _check_registration(place, each, {*RESOURCES, *(resource.name for resource in cls.watches)})


def check_hints(subject: Subject, pods: Sequence[Pod], objects: Sequence[KubeObject]) -> None:
    if not subject.has("events_to_register"):
        return
    all_objects = [*objects, *load_manifests(_MORE_OBJECTS, "sample").objects]
    for each in subject.plugin.events_to_register():
        if each.hint is not None:
            changes = list(_changes(subject, each.event, pods, all_objects))
            for pod, change in product(pods, changes):
                _check_hint(subject, each, pod, change)


def _check_registration(place: Place, each: object, resources: Collection[str]) -> None:
    if not isinstance(each, EventHint) or not isinstance(each.event, ClusterEvent):
        place.fail(f"yielded {each!r}; expected requeue_on(Resource.NODE, Action.ADD)")
    event = each.event
    if event.resource not in resources:
        place.fail(f"registers for {event.resource!r}; expected one of {', '.join(sorted(resources))}")
    if not isinstance(event.action, Action) or not event.action or event.action & ~Action.ALL:
        place.fail(f"registers for {event.resource} with {event.action!r}; expected an Action")
    if event.resource == Resource.WILDCARD and event.action != Action.ALL:
        place.fail(f"registers for * with {event.action!r}; expected Action.ALL")
    if each.hint is not None and not callable(each.hint):
        place.fail(f"gives {each.hint!r} as a hint for {event.name}; expected a function or None")


def _check_hint(subject: Subject, each: EventHint, pod: Pod, change: Change) -> None:
    assert each.hint is not None
    what = f"hint for {each.event.name}, {_told(change)}"
    place = Place(subject.name, "events_to_register", pod=pod.key, where=what)
    try:
        answer = each.hint(subject.info(pod), *change)
    except Exception as exc:
        raise AssertionError(f"{place}: raised {type(exc).__name__}: {exc}") from exc
    if not isinstance(answer, Hint):
        place.fail(f"returned {answer!r}; expected Hint.QUEUE or Hint.SKIP")


def _told(change: Change) -> str:
    old, new = change
    name = (new if old is None else old).name
    return f"{name} {'added' if old is None else 'deleted' if new is None else 'updated'}"


def _changes(
    subject: Subject, event: ClusterEvent, pods: Sequence[Pod], objects: Sequence[KubeObject]
) -> Iterator[Change]:
    """Changes that the event covers."""
    updates = [(subject.info(old), subject.info(new)) for old, new in _pod_updates(pods)]
    if event.resource in (Resource.POD, Resource.UNSCHEDULABLE_POD, Resource.ASSIGNED_POD):
        yield from _covered(event, _of_pods(event.resource, updates))
    elif event.resource == Resource.NODE:
        nodes = [info.node for info in subject.nodes]
        yield from _covered(event, _node_updates(nodes))
    elif event.resource in _KINDS:
        of_kind = [obj for obj in objects if isinstance(obj, _KINDS[event.resource])]
        yield from _covered(event, [(obj, obj) for obj in of_kind])


def _covered(event: ClusterEvent, updates: Sequence[Change]) -> Iterator[Change]:
    for old, new in updates:
        if event.action & Action.ADD:
            yield None, new
        if event.action & Action.DELETE:
            yield old, None
        if event.action & Action.UPDATE:
            yield old, new


def _of_pods(resource: str, updates: Sequence[Change]) -> Sequence[Change]:
    """Pods with a node are AssignedPod, those without are UnschedulablePod; Pod is both."""
    if resource == Resource.POD:
        return updates
    return [u for u in updates if bool(u[1].node_name) == (resource == Resource.ASSIGNED_POD)]


def _pod_updates(pods: Sequence[Pod]) -> Iterator[tuple[Pod, Pod]]:
    running = make_pod("running", requests={"cpu": "1"}, labels={"app": "web"}, node_name="a-1")
    yield running, make_pod("running", requests={"cpu": "500m"}, labels={"app": "db"}, node_name="a-1")
    yield make_pod("held", scheduling_gates="gate"), make_pod("held")
    yield make_pod("calm"), make_pod("calm", tolerations="")
    for pod in pods[:3]:  # a pending pod's own update, too, asks its hints
        labels = {**pod.metadata.labels, "changed": "yes"}
        yield pod, replace(pod, metadata=replace(pod.metadata, labels=labels))


def _node_updates(nodes: Sequence[Node]) -> list[Change]:
    small = make_node("changed", taints="dedicated:NoSchedule", unschedulable=True)
    large = make_node("changed", cpu="64", memory="256Gi", zone="a", labels={"disk": "ssd"})
    return [(small, large), (large, small), *((node, node) for node in nodes)]
