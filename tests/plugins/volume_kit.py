"""Clusters with volumes: a store of claims, volumes and classes beside the nodes, and builders for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.api.patches import merge_patch
from mooring.api.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.framework.handle import Handle
from mooring.framework.plugin import Plugin
from mooring.framework.status import Status
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner
from mooring.state.store import ObjectStore
from tests.plugins.plugin_kit import Cluster

P = TypeVar("P", bound=Plugin)
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


# ---- objects


def storage_class(name: str, provisioner: str = "csi.example.com", **fields: Any) -> StorageClass:
    fields.setdefault("volumeBindingMode", "WaitForFirstConsumer")
    return _object(StorageClass, "storage.k8s.io/v1", name, {"provisioner": provisioner, **fields})


def claim(
    name: str,
    size: str | None = "1Gi",
    *,
    volume: str = "",
    class_name: str | None = "wait",
    modes: Sequence[str] = ("ReadWriteOnce",),
    phase: str = "",
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """A claim; with a `volume`, one that is completely bound to it."""
    metadata: dict[str, Any] = {"uid": f"uid-{name}", "namespace": "default", **(meta or {})}
    if volume:
        annotations = {"pv.kubernetes.io/bind-completed": "yes", **metadata.get("annotations", {})}
        metadata["annotations"] = annotations
    full = {"accessModes": list(modes), "volumeName": volume, **spec}
    if size is not None:
        full["resources"] = {"requests": {"storage": size}}
    if class_name is not None:
        full["storageClassName"] = class_name
    body = {"spec": full, "status": {"phase": phase or ("Bound" if volume else "Pending")}}
    return _object(PersistentVolumeClaim, "v1", name, body, metadata)


def volume(
    name: str,
    size: str = "1Gi",
    *,
    on: Mapping[str, Sequence[str]] | None = None,
    class_name: str = "wait",
    claim_ref: Mapping[str, str] | None = None,
    modes: Sequence[str] = ("ReadWriteOnce",),
    phase: str = "Available",
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PersistentVolume:
    """A volume that nodes with these labels can use."""
    full: dict[str, Any] = {
        "capacity": {"storage": size},
        "accessModes": list(modes),
        "storageClassName": class_name,
        **spec,
    }
    if on is not None:
        expressions = [{"key": key, "operator": "In", "values": list(v)} for key, v in on.items()]
        terms = [{"matchExpressions": expressions}]
        full["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if claim_ref is not None:
        full["claimRef"] = {"namespace": "default", **claim_ref}
    return _object(PersistentVolume, "v1", name, {"spec": full, "status": {"phase": phase}}, meta)


def csi_volume(name: str, driver: str = "csi.example.com", **fields: Any) -> PersistentVolume:
    return volume(name, csi={"driver": driver, "volumeHandle": f"handle-{name}"}, phase="Bound", **fields)


def csi_node(name: str, limits: Mapping[str, int | None] | None = None, migrated: str = "") -> CSINode:
    drivers = [
        {"name": driver, "nodeID": name, **({} if limit is None else {"allocatable": {"count": limit}})}
        for driver, limit in (limits or {}).items()
    ]
    meta = {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": migrated}} if migrated else {}
    return _object(CSINode, "storage.k8s.io/v1", name, {"spec": {"drivers": drivers}}, meta)


def capacity(name: str, *, class_name: str = "wait", **fields: Any) -> CSIStorageCapacity:
    meta = {"namespace": "kube-system"}
    body = {"storageClassName": class_name, **fields}
    return _object(CSIStorageCapacity, "storage.k8s.io/v1", name, body, meta)


def attachment(name: str, node: str, volume_name: str, driver: str = "csi.example.com") -> VolumeAttachment:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume_name}}
    return _object(VolumeAttachment, "storage.k8s.io/v1", name, {"spec": spec})


Kind = TypeVar("Kind", bound=KubeObject)


def _object(
    kind: type[Kind], version: str, name: str, body: Mapping[str, Any], meta: Mapping[str, Any] | None = None
) -> Kind:
    found = from_dict(
        {"apiVersion": version, "kind": kind.__name__, "metadata": {"name": name, **(meta or {})}, **body}
    )
    assert isinstance(found, kind)
    return found


def using(*claims: str) -> list[dict[str, Any]]:
    """The volumes of a pod that uses these claims."""
    return [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(claims)]


# ---- cluster


class ApiServer:
    """The client's side of an API server: merge patches with optimistic locking, and time that passes while
    one waits, in which the given controllers act."""

    def __init__(self, store: ObjectStore, controllers: Iterable[Callable[[], None]] = ()) -> None:
        self.store = store
        self.controllers = list(controllers)
        self.now = 0.0
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self._version = 100

    async def patch(self, obj: KubeObject, patch: dict[str, Any], subresource: str = "") -> None:
        current = self.store.get(type(obj), obj.name, obj.namespace)
        assert current is not None
        wanted = patch.get("metadata", {}).get("resourceVersion", "")
        if wanted != current.metadata.resource_version:
            raise RuntimeError(f'Operation cannot be fulfilled on "{obj.name}": the object has been modified')
        self.patches.append((obj.name, patch))
        self._version += 1
        raw = merge_patch(msgspec.to_builtins(current), patch)
        raw["metadata"]["resourceVersion"] = str(self._version)
        self.store.put(msgspec.convert(raw, type(obj)))

    async def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        deadline = self.now + timeout
        while (left := deadline - self.now) > 0:
            self.now += min(1.0, left)
            for act in self.controllers:
                act()
            if done():
                return True
        return False


class Desk:
    """A Handle over a cluster."""

    def __init__(self, snapshot: Cluster, listers: ObjectStore) -> None:
        self.snapshot = snapshot
        self.listers = listers
        self.client: ApiServer | None = None
        self.logger = logging.getLogger("mooring.test")

    def now(self) -> float:
        return 0.0 if self.client is None else self.client.now


class VolumeCluster(Cluster):
    """Nodes, pods on them, and other objects."""

    def __init__(
        self,
        nodes: Iterable[Node],
        *objects: KubeObject,
        pods: Mapping[str, Sequence[Pod]] | None = None,
    ) -> None:
        self.store = ObjectStore()
        self.desk = Desk(self, self.store)
        super().__init__(nodes, pods)
        self.put(*objects)

    def put(self, *objects: KubeObject) -> None:
        for obj in objects:
            self.store.put(obj)

    def plugin(self, cls: type[P], **args: Any) -> P:
        made = cls.args_type(**args) if cls.args_type is not None else None
        return cls(made, cast(Handle, self.desk))

    def without(self, plugin: Plugin, pod: Pod, *gone: str) -> dict[str, Status | None]:
        """What the filter says with these pods removed from their nodes, as preemption would ask."""
        nodes, info, state = self.nodes, self.info(pod), EngineState()
        plugin.pre_filter(state, info, nodes)
        there = [[p for p in nodes[i].pods if p.name in gone] for i in range(len(nodes))]
        view = nodes.what_if(nodes.rows, there, [[] for _ in there])
        for j in range(view.present.shape[1]):
            view.set_present(j, view.has(j), False)
        verdicts = FilterRunner(plugin).run(state, info, view)
        codes = [0] * len(nodes) if verdicts is None else verdicts.codes.tolist()
        return {
            name: verdicts.statuses[code] if verdicts is not None and code else None
            for name, code in zip(nodes.names, codes, strict=True)
        }
