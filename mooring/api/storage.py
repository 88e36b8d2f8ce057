"""Persistent volumes, claims, storage classes and CSI objects."""

from __future__ import annotations

import msgspec

from mooring.api.meta import KubeObject, LabelSelector, ObjectReference, Quantity, ResourceList, Struct, Value
from mooring.api.objects import (
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    GCEPersistentDisk,
    NodeSelector,
    PortworxVolume,
    ResourceRequirements,
    VsphereVolume,
)


class VolumeNodeAffinity(Value, frozen=True):
    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Value, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class PathPersistentVolumeSource(Value, frozen=True):
    """A path of a node."""

    path: str = ""


class PersistentVolumeSpec(Struct):
    capacity: ResourceList = {}
    access_modes: list[str] = []
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    host_path: PathPersistentVolumeSource | None = None
    local: PathPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    persistent_volume_reclaim_policy: str = "Retain"


class PersistentVolumeStatus(Struct):
    phase: str = ""


class PersistentVolume(KubeObject):
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = msgspec.field(default_factory=PersistentVolumeStatus)


class PersistentVolumeClaimSpec(Struct):
    access_modes: list[str] = []
    resources: ResourceRequirements = ResourceRequirements()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ModifyVolumeStatus(Value, frozen=True):
    target_volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(Struct):
    phase: str = ""
    access_modes: list[str] = []
    capacity: ResourceList = {}
    allocated_resources: ResourceList = {}
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(KubeObject):
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = msgspec.field(default_factory=PersistentVolumeClaimStatus)


class TopologySelectorRequirement(Value, frozen=True):
    key: str
    values: list[str] = []


class TopologySelectorTerm(Value, frozen=True):
    match_label_expressions: list[TopologySelectorRequirement] = []


class StorageClass(KubeObject):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] = []
    reclaim_policy: str = "Delete"
    mount_options: list[str] = []


class VolumeNodeResources(Value, frozen=True):
    count: int | None = None


class CSINodeDriver(Value, frozen=True):
    name: str
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct):
    drivers: list[CSINodeDriver] = []


class CSINode(KubeObject):
    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)


class CSIDriverSpec(Struct):
    storage_capacity: bool | None = None


class CSIDriver(KubeObject):
    spec: CSIDriverSpec = msgspec.field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(KubeObject):
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(Value, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(KubeObject):
    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)
