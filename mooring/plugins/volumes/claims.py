"""Claims and volumes: which claims a pod uses, their classes, sizes and whether they are bound."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mooring.api import quantity
from mooring.api.objects import PodSpec
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.framework.pod import PodInfo

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

# How kube-scheduler's listers name the kinds when an object is not there.
CLAIM_KIND = "persistentvolumeclaim"
VOLUME_KIND = "persistentvolume"
CLASS_KIND = "storageclass.storage.k8s.io"


class VolumeError(Exception):
    """A question about volumes that has no answer; the attempt to schedule the pod is an error."""


class ClaimUse(NamedTuple):
    """A claim as a pod's volume names it; a generic ephemeral volume's is made for the pod."""

    name: str
    ephemeral: bool


class _Podlike(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def spec(self) -> PodSpec: ...


def claims_of(pod: _Podlike) -> tuple[ClaimUse, ...]:
    """The claims behind a pod's volumes, in order, repeated where volumes share one."""
    return tuple(
        ClaimUse(volume.persistent_volume_claim.claim_name, False)
        if volume.persistent_volume_claim is not None
        else ClaimUse(f"{pod.name}-{volume.name}", True)
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    )


def direct_claims_of(pod: _Podlike) -> tuple[str, ...]:
    """The names of the claims that the pod names itself, without those of ephemeral volumes."""
    return tuple(use.name for use in claims_of(pod) if not use.ephemeral)


def not_found(kind: str, name: str) -> str:
    """The text of an API server's answer about an object that does not exist."""
    return f'{kind} "{name}" not found'


def ownership_problem(pod: PodInfo, claim: PersistentVolumeClaim) -> str | None:
    """Why a claim cannot serve the pod's ephemeral volume: it exists, but for someone else."""
    owner = claim.metadata.controller()
    if owner is not None and owner.uid == pod.uid:
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """The claim's storage class; "" for none. The old annotation still wins over the field."""
    return claim.metadata.annotations.get(BETA_STORAGE_CLASS, claim.spec.storage_class_name or "")


def class_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Bound, and the volume controller has finished with it."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def requested_size(claim: PersistentVolumeClaim) -> int:
    """The requested size in nano-bytes; 0 where the claim requests none."""
    raw = claim.spec.resources.requests.get("storage")
    return 0 if raw is None else quantity.parse(raw)


def capacity_of(volume: PersistentVolume) -> int:
    """The volume's size in nano-bytes."""
    raw = volume.spec.capacity.get("storage")
    return 0 if raw is None else quantity.parse(raw)


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume refers to this claim; a reference without uid was made by a person in advance."""
    ref = volume.spec.claim_ref
    return (
        ref is not None
        and (ref.name, ref.namespace) == (claim.name, claim.namespace)
        and ref.uid in ("", claim.uid)
    )
