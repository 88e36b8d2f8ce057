"""Volumes, claims and classes, as their controllers read them."""

from __future__ import annotations

import msgspec

from mooring.api import storage
from mooring.api.meta import ResourceList


class PersistentVolumeSpec(storage.PersistentVolumeSpec):
    persistent_volume_reclaim_policy: str = "Retain"


class PersistentVolume(storage.PersistentVolume):
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)


class PersistentVolumeClaimStatus(storage.PersistentVolumeClaimStatus):
    access_modes: list[str] = []
    capacity: ResourceList = {}


class PersistentVolumeClaim(storage.PersistentVolumeClaim):
    status: PersistentVolumeClaimStatus = msgspec.field(default_factory=PersistentVolumeClaimStatus)


class StorageClass(storage.StorageClass):
    reclaim_policy: str = "Delete"
    mount_options: list[str] = []
