"""Cells of volumes, claims, storage classes and resource claims."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.shared_cells import default_class_name, joined

_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def access_modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def volume_phase(obj: Tree) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return dig(obj, "status", "phase") or ""


def storage_class(obj: Tree) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    name: str = annotations.get(_CLASS, dig(obj, "spec", "storageClassName") or "")
    return name


def claim_capacity(claim: Tree) -> str:
    """The capacity of a bound claim."""
    capacity = dig(claim, "status", "capacity", "storage") if dig(claim, "spec", "volumeName") else ""
    return "0" if capacity is None else capacity


def claim_access_modes(claim: Tree) -> str:
    """The access modes of a bound claim."""
    return access_modes(dig(claim, "status", "accessModes")) if dig(claim, "spec", "volumeName") else ""


def storage_class_name(metadata: Tree) -> str:
    return default_class_name(
        metadata,
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    )


def audiences(token_requests: list[Tree]) -> str:
    return joined(request.get("audience", "") for request in token_requests)


def claim_state(claim: Tree) -> str:
    """The state of a ResourceClaim."""
    deleted = "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if deleted else []
    if dig(claim, "status", "allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if dig(claim, "status", "reservedFor") else ["allocated"]
    return ",".join(states)
