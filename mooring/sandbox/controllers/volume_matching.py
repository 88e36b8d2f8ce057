"""Which volume suits which claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.api.quantity import to_value
from mooring.api.selectors import compile_selector
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
OLD_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
_STORAGE: Final = "storage"


def class_of(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    """The name of the class, "" for none."""
    return obj.metadata.annotations.get(OLD_CLASS) or obj.spec.storage_class_name or ""


def has_class(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim says which class it wants, be it none."""
    return OLD_CLASS in claim.metadata.annotations or claim.spec.storage_class_name is not None


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume is reserved for this claim; without a uid, for any claim of that name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.namespace, claim.name)
        and reference.uid in ("", claim.uid)
    )


def capacity(volume: PersistentVolume) -> int:
    return to_value(volume.spec.capacity.get(_STORAGE, 0))


def requested(claim: PersistentVolumeClaim) -> int:
    return to_value(claim.spec.resources.requests.get(_STORAGE, 0))


def same_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")


def _same_attributes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return _attributes(volume.spec) == (claim.spec.volume_attributes_class_name or "")


def _attributes(spec: PersistentVolumeSpec) -> str:
    return spec.volume_attributes_class_name or ""


def _has_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a volume that a claim asks for by name cannot be had; "" where it can."""
    if volume.metadata.deletion_timestamp is not None:
        return f'the volume is marked for deletion "{volume.name}"'
    if capacity(volume) < requested(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if not _same_attributes(volume, claim):
        return "volumeAttributesClassName does not match"
    if not same_mode(volume, claim):
        return "incompatible volumeMode"
    return "" if _has_modes(volume, claim) else "incompatible accessMode"


def best_match(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, delayed: bool
) -> PersistentVolume | None:
    """The volume for a claim: the one that is meant for it, else the smallest of those with the fewest access
    modes. `delayed`: the choice is the scheduler's, so that only the former counts."""
    size = requested(claim)
    suitable = [
        volume
        for volume in volumes
        if _has_modes(volume, claim)
        and (volume.spec.claim_ref is None or is_bound_to(volume, claim))
        and capacity(volume) >= size
        and same_mode(volume, claim)
        and _same_attributes(volume, claim)
        and volume.metadata.deletion_timestamp is None
    ]
    for volume in suitable:
        if is_bound_to(volume, claim):
            return volume
    if delayed:
        return None
    selector = None if claim.spec.selector is None else compile_selector(claim.spec.selector)
    class_name = class_of(claim)
    free = [
        volume
        for volume in suitable
        if volume.status.phase == "Available"
        and class_of(volume) == class_name
        and (selector is None or selector.matches(volume.metadata.labels))
    ]
    return min(
        free,
        key=lambda volume: (len(set(volume.spec.access_modes)), capacity(volume), volume.name),
        default=None,
    )
