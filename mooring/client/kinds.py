"""The kinds Mooring deals with, and where an API server serves them."""

from __future__ import annotations

from mooring.api.events import Event
from mooring.api.kinds import ApiResource as ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.api.workloads import (
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

PODS = ApiResource("", "v1", "pods", True, Pod)
NODES = ApiResource("", "v1", "nodes", False, Node)
NAMESPACES = ApiResource("", "v1", "namespaces", False, Namespace)
SERVICES = ApiResource("", "v1", "services", True, Service)
REPLICATION_CONTROLLERS = ApiResource("", "v1", "replicationcontrollers", True, ReplicationController)
REPLICA_SETS = ApiResource("apps", "v1", "replicasets", True, ReplicaSet)
STATEFUL_SETS = ApiResource("apps", "v1", "statefulsets", True, StatefulSet)
POD_DISRUPTION_BUDGETS = ApiResource("policy", "v1", "poddisruptionbudgets", True, PodDisruptionBudget)
PERSISTENT_VOLUMES = ApiResource("", "v1", "persistentvolumes", False, PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = ApiResource("", "v1", "persistentvolumeclaims", True, PersistentVolumeClaim)
STORAGE_CLASSES = ApiResource("storage.k8s.io", "v1", "storageclasses", False, StorageClass)
CSI_NODES = ApiResource("storage.k8s.io", "v1", "csinodes", False, CSINode)
CSI_DRIVERS = ApiResource("storage.k8s.io", "v1", "csidrivers", False, CSIDriver)
CSI_STORAGE_CAPACITIES = ApiResource("storage.k8s.io", "v1", "csistoragecapacities", True, CSIStorageCapacity)
VOLUME_ATTACHMENTS = ApiResource("storage.k8s.io", "v1", "volumeattachments", False, VolumeAttachment)
EVENTS = ApiResource("events.k8s.io", "v1", "events", True, Event)

WATCHED: tuple[ApiResource[KubeObject], ...] = (
    NODES,
    PODS,
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)  # type: ignore[assignment]
"""What the scheduler lists and watches; the models are read only, so a subclass serves as its base."""

BY_MODEL: dict[type[KubeObject], ApiResource[KubeObject]] = {r.model: r for r in WATCHED}
