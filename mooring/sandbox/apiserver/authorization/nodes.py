"""What nodes may read: the objects that the pods bound to them use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.objects import Tree, decode_record, dig
from mooring.sandbox.apiserver.store.store import Store

_USER: Final = "system:node:"
_GROUP: Final = "system:nodes"
_NODE_NAME: Final = 0  # index into the selectable fields of pods
_GET: Final = frozenset(("get",))
_READ: Final = frozenset(("get", "list", "watch"))
_VERBS: Final = {
    ("", "secrets"): _READ,
    ("", "configmaps"): _READ,
    ("", "pods"): _READ,
    ("", "serviceaccounts"): _READ,
    ("", "persistentvolumeclaims"): _GET,
    ("", "persistentvolumes"): _GET,
    ("resource.k8s.io", "resourceclaims"): _GET,
}
_REFERENCES: Final = {
    "secretKeyRef": ("secrets", "name"),
    "secretRef": ("secrets", "name"),
    "nodePublishSecretRef": ("secrets", "name"),
    "imagePullSecrets": ("secrets", "name"),
    "configMapKeyRef": ("configmaps", "name"),
    "configMapRef": ("configmaps", "name"),
    "configMap": ("configmaps", "name"),
    "persistentVolumeClaim": ("persistentvolumeclaims", "claimName"),
}
"""Resource and name of what a field of a pod's spec refers to."""


def decide_for_node(store: Store, user: User, attributes: Attributes) -> tuple[bool, str]:
    """Return whether the user is a node that may do this, or why it may not."""
    if _GROUP not in user.groups or not user.name.startswith(_USER):
        return False, ""
    verbs = _VERBS.get((attributes.group, attributes.resource))
    if verbs is None:
        return False, ""
    if attributes.verb not in verbs:
        alone = "can only get individual resources of this type"
        return False, alone if verbs is _GET else "can only read resources of this type"
    if not attributes.name:
        return False, "No Object name found"
    node = user.name.removeprefix(_USER)
    if attributes.name in _related(store, node, attributes.resource, attributes.namespace):
        return True, ""
    return False, f"no relationship found between node '{node}' and this object"


def _related(store: Store, node: str, resource: str, namespace: str) -> Iterator[str]:
    """Yield the names of the objects of a resource that pods on the node use."""
    for record in store.table("pods").records.values():
        if record.fields[_NODE_NAME] != node or (namespace and record.namespace != namespace):
            continue
        pod = decode_record(record, "", "")
        if resource == "persistentvolumes":
            claims = store.table("persistentvolumeclaims")
            for kind, name in _used(pod):
                claim = claims.get(f"{record.namespace}/{name}") if kind == "persistentvolumeclaims" else None
                if claim is not None:
                    yield str(dig(decode_record(claim, "", ""), "spec", "volumeName") or "")
            continue
        yield from (name for kind, name in _used(pod) if kind == resource)


def _used(pod: Tree) -> Iterator[tuple[str, str]]:
    """Yield the resources and names that a pod refers to."""
    name, spec, status = pod["metadata"]["name"], pod["spec"], pod.get("status") or {}
    yield "pods", name
    yield "serviceaccounts", spec.get("serviceAccountName") or "default"
    yield from _referred(spec)
    for volume in spec.get("volumes") or ():
        if "ephemeral" in volume:
            yield "persistentvolumeclaims", f"{name}-{volume['name']}"
    extended = status.get("extendedResourceClaimStatus")
    claims = [*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())]
    for claim in [*claims, extended] if extended else claims:
        yield "resourceclaims", claim.get("resourceClaimName") or ""


def _referred(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for one in value:
            yield from _referred(one)
    elif isinstance(value, dict):
        for key, part in value.items():
            if key == "secret" and isinstance(part, dict):  # of a volume, or of a projected one
                yield "secrets", part.get("secretName") or part.get("name") or ""
            elif key in _REFERENCES:
                resource, field = _REFERENCES[key]
                for one in part if isinstance(part, list) else [part]:
                    yield resource, one.get(field) or ""
            else:
                yield from _referred(part)
