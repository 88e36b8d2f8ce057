"""Small builders of nodes and pods, from the dictionaries that an API server would send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
Fields = Mapping[str, Any]


def node(
    name: str,
    allocatable: Fields | None = None,
    *,
    labels: Fields | None = None,
    taints: Sequence[Fields] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    features: Sequence[str] = (),
    annotations: Fields | None = None,
    spec: Fields | None = None,
    status: Fields | None = None,
) -> Node:
    """A node with room for a few pods by default; `images` is size by name, `spec` and `status` take further
    fields under their Kubernetes names."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"} if allocatable is None else allocatable
    made = from_dict(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {HOST: name} if labels is None else dict(labels),
                "annotations": dict(annotations or {}),
            },
            "spec": {"taints": [dict(t) for t in taints], "unschedulable": unschedulable, **(spec or {})},
            "status": {
                "allocatable": dict(amounts),
                "images": [{"names": [key], "sizeBytes": size} for key, size in (images or {}).items()],
                "declaredFeatures": list(features),
                **(status or {}),
            },
        }
    )
    assert isinstance(made, Node)
    return made


def pod(
    name: str,
    requests: Fields | None = None,
    *,
    on: str = "",
    labels: Fields | None = None,
    namespace: str = "default",
    uid: str = "",
    metadata: Fields | None = None,
    container: Fields | None = None,
    status: Fields | None = None,
    **spec: Any,
) -> Pod:
    """A pod with one container; `spec` takes further fields under their Kubernetes names."""
    only = {"name": "main", "resources": {"requests": dict(requests or {})}, **(container or {})}
    made = from_dict(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid or name,
                "labels": dict(labels or {}),
                **(metadata or {}),
            },
            "spec": {"containers": [only], "nodeName": on, **spec},
            "status": dict(status or {}),
        }
    )
    assert isinstance(made, Pod)
    return made


def manifest(
    kind: str, name: str, namespace: str = "", *, group: str = "v1", **fields: Any
) -> dict[str, Any]:
    """Any other object, as a manifest."""
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{namespace}-{name}"}
    metadata |= fields.pop("metadata", {})
    return {"apiVersion": group, "kind": kind, "metadata": metadata, **fields}


def thing(kind: str, name: str, namespace: str = "", **fields: Any) -> KubeObject:
    """Any other object."""
    return from_dict(manifest(kind, name, namespace, **fields))
