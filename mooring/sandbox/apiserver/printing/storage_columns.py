"""Volumes, claims, and what provides them."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.columns import (
    AGE,
    NAME,
    Cell,
    Column,
    Printer,
    at,
    boolean,
    count,
    integer,
    name_of,
    named,
    of,
    wide,
)
from mooring.sandbox.apiserver.printing.texts import NONE, UNSET, marked

_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_VOLUME: Final = "core_v1.PersistentVolumeSpec"
_CLAIM: Final = "core_v1.PersistentVolumeClaimSpec"
_CLAIM_STATUS: Final = "core_v1.PersistentVolumeClaimStatus"
_DRIVER: Final = "storage_v1.CSIDriverSpec"
_STORAGE_CLASS: Final = "storage_v1.StorageClass"
_ATTACHMENT: Final = "storage_v1.VolumeAttachmentSpec"


def _access_modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def _phase(obj: Tree) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return dig(obj, "status", "phase") or ""


def _class(obj: Tree) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    found: str = annotations.get(_CLASS, dig(obj, "spec", "storageClassName") or "")
    return found


def _claimed_by(volume: Tree) -> str:
    claim = dig(volume, "spec", "claimRef")
    return "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"


def _of_bound_claim(cell: Cell) -> Cell:
    """What is known of a claim as soon as it has a volume."""
    return lambda claim, ages: cell(claim, ages) if dig(claim, "spec", "volumeName") else ""


def _class_name(storage_class: Tree) -> str:
    name = name_of(storage_class)
    return f"{name} (default)" if marked(storage_class, *_DEFAULT_CLASS) else name


def _token_requests(driver: Tree) -> str:
    found = dig(driver, "spec", "tokenRequests")
    return UNSET if found is None else ",".join(request.get("audience", "") for request in found)


def _flag(name: str, member: str, *, default: bool = False) -> Column:
    return boolean(name, at("spec", member, default=default), f"{_DRIVER}.{member}")


PRINTERS: Final = {
    "persistentvolumes": Printer(
        NAME,
        Column("Capacity", at("spec", "capacity", "storage", default="0"), f"{_VOLUME}.capacity"),
        Column(
            "Access Modes",
            of(lambda obj: _access_modes(dig(obj, "spec", "accessModes"))),
            f"{_VOLUME}.accessModes",
        ),
        Column(
            "Reclaim Policy",
            at("spec", "persistentVolumeReclaimPolicy"),
            f"{_VOLUME}.persistentVolumeReclaimPolicy",
        ),
        Column("Status", of(_phase), "core_v1.PersistentVolumeStatus.phase"),
        Column("Claim", of(_claimed_by), f"{_VOLUME}.claimRef"),
        Column("StorageClass", of(_class), "StorageClass of the pv"),
        Column(
            "VolumeAttributesClass",
            at("spec", "volumeAttributesClassName", default=UNSET),
            "VolumeAttributesClass of the pv",
        ),
        Column("Reason", at("status", "reason"), "core_v1.PersistentVolumeStatus.reason"),
        AGE,
        wide("VolumeMode", at("spec", "volumeMode", default=UNSET), f"{_VOLUME}.volumeMode"),
    ),
    "persistentvolumeclaims": Printer(
        NAME,
        Column("Status", of(_phase), f"{_CLAIM_STATUS}.phase"),
        Column("Volume", at("spec", "volumeName"), f"{_CLAIM}.volumeName"),
        Column(
            "Capacity",
            _of_bound_claim(at("status", "capacity", "storage", default="0")),
            f"{_CLAIM_STATUS}.capacity",
        ),
        Column(
            "Access Modes",
            _of_bound_claim(of(lambda obj: _access_modes(dig(obj, "status", "accessModes")))),
            f"{_CLAIM_STATUS}.accessModes",
        ),
        Column("StorageClass", of(_class), "StorageClass of the pvc"),
        Column(
            "VolumeAttributesClass",
            at("spec", "volumeAttributesClassName", default=UNSET),
            "VolumeAttributesClass of the pvc",
        ),
        AGE,
        wide("VolumeMode", at("spec", "volumeMode", default=UNSET), f"{_CLAIM}.volumeMode"),
    ),
    "storageclasses.storage.k8s.io": Printer(
        named(of(_class_name)),
        Column("Provisioner", at("provisioner"), f"{_STORAGE_CLASS}.provisioner"),
        Column("ReclaimPolicy", at("reclaimPolicy", default="Delete"), f"{_STORAGE_CLASS}.reclaimPolicy"),
        Column(
            "VolumeBindingMode",
            at("volumeBindingMode", default="Immediate"),
            f"{_STORAGE_CLASS}.volumeBindingMode",
        ),
        Column(
            "AllowVolumeExpansion",
            at("allowVolumeExpansion", default=False),
            f"{_STORAGE_CLASS}.allowVolumeExpansion",
        ),
        AGE,
    ),
    "volumeattributesclasses.storage.k8s.io": Printer(
        NAME, Column("DriverName", at("driverName"), "storage_v1.VolumeAttributesClass.driverName"), AGE
    ),
    "csidrivers.storage.k8s.io": Printer(
        NAME,
        _flag("AttachRequired", "attachRequired", default=True),
        _flag("PodInfoOnMount", "podInfoOnMount"),
        _flag("StorageCapacity", "storageCapacity"),
        Column("TokenRequests", of(_token_requests), f"{_DRIVER}.tokenRequests"),
        _flag("RequiresRepublish", "requiresRepublish"),
        Column(
            "Modes",
            of(lambda obj: ",".join(dig(obj, "spec", "volumeLifecycleModes") or ()) or NONE),
            f"{_DRIVER}.volumeLifecycleModes",
        ),
        AGE,
    ),
    "csinodes.storage.k8s.io": Printer(
        NAME,
        integer(
            "Drivers",
            count("spec", "drivers"),
            "Drivers indicates the number of CSI drivers registered on the node",
        ),
        AGE,
    ),
    "volumeattachments.storage.k8s.io": Printer(
        NAME,
        Column("Attacher", at("spec", "attacher"), f"{_ATTACHMENT}.attacher", format="name"),
        Column(
            "PV",
            at("spec", "source", "persistentVolumeName"),
            "storage_v1.VolumeAttachmentSource.persistentVolumeName",
        ),
        Column("Node", at("spec", "nodeName"), f"{_ATTACHMENT}.nodeName"),
        boolean(
            "Attached",
            at("status", "attached", default=False),
            "storage_v1.VolumeAttachmentStatus.attached",
        ),
        AGE,
    ),
}
