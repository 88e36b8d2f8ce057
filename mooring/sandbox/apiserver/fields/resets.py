"""Fields that a write cannot change, so that writing them does not make their writer the owner."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.fields.sets import LEAF, Fields, only, without

Reset = Callable[[Fields], Fields]
"""Removes from a set what the write cannot change."""

_STATUS: Final[Fields] = {"f:status": LEAF}
_SPEC: Final[Fields] = {"f:spec": LEAF}
_BOTH: Final[Fields] = {"f:spec": LEAF, "f:status": LEAF}
_SPEC_AND_METADATA: Final[Fields] = {"f:spec": LEAF, "f:metadata": LEAF}
_RESIZED: Final[Fields] = {"*": {"f:resources": LEAF, "f:resizePolicy": LEAF}}

_ONLY: Final[dict[tuple[str, str], Fields]] = {
    ("pods", "ephemeralcontainers"): {"f:spec": {"f:ephemeralContainers": LEAF}},
    ("pods", "resize"): {"f:spec": {"f:containers": _RESIZED, "f:initContainers": _RESIZED}},
}
_WITHOUT: Final[dict[tuple[str, str], Fields]] = {
    ("certificatesigningrequests.certificates.k8s.io", ""): _BOTH,
    ("certificatesigningrequests.certificates.k8s.io", "approval"): {
        "f:spec": LEAF,
        "f:status": {"f:certificate": LEAF},
    },
    ("certificatesigningrequests.certificates.k8s.io", "status"): {
        "f:spec": LEAF,
        "f:status": {"f:conditions": LEAF},
    },
    ("deployments.apps", "status"): {"f:spec": LEAF, "f:metadata": {"f:labels": LEAF}},
    ("devicetaintrules.resource.k8s.io", "status"): _SPEC_AND_METADATA,
    ("flowschemas.flowcontrol.apiserver.k8s.io", "status"): _SPEC_AND_METADATA,
    ("namespaces", "finalize"): _STATUS,
    ("podgroups.scheduling.k8s.io", "status"): _SPEC_AND_METADATA,
    ("pods", "status"): {
        "f:spec": LEAF,
        "f:metadata": {"f:deletionTimestamp": LEAF, "f:ownerReferences": LEAF},
    },
    ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "status"): _SPEC_AND_METADATA,
    ("resourceclaims.resource.k8s.io", "status"): _SPEC_AND_METADATA,
    ("servicecidrs.networking.k8s.io", "status"): _SPEC_AND_METADATA,
    ("validatingadmissionpolicies.admissionregistration.k8s.io", "status"): _SPEC_AND_METADATA,
    ("volumeattachments.storage.k8s.io", "status"): _SPEC_AND_METADATA,
}


@lru_cache(maxsize=512)
def reset_of(resource: Resource, subresource: str) -> Reset:
    """Return the fields that writes to a resource, or to one of its subresources, cannot change."""
    pattern = _ONLY.get((resource.storage, subresource))
    if pattern is not None:
        return partial(_only, pattern)
    return partial(_without, _reset_fields(resource, subresource))


def _reset_fields(resource: Resource, subresource: str) -> Fields:
    special = _WITHOUT.get((resource.storage, subresource))
    if special is not None:
        return special
    if subresource == "status":
        return _SPEC_AND_METADATA if resource.custom else _SPEC
    return _STATUS if not subresource and "status" in resource.subresources else LEAF


def _only(pattern: Fields, fields: Fields) -> Fields:
    return only(fields, pattern)


def _without(reset: Fields, fields: Fields) -> Fields:
    return without(fields, reset)
