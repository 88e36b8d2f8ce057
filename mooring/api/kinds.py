"""The table of kinds: where an API server serves each, and the struct its objects are decoded into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from mooring.api import coscheduling
from mooring.api.coordination import Lease
from mooring.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.api.events import CoreEvent, Event
from mooring.api.groups import PodGroup, Workload
from mooring.api.jobs import CronJob, Job
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.api.quotas import ResourceQuota
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
    ControllerRevision,
    DaemonSet,
    Deployment,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

Obj = TypeVar("Obj", bound=KubeObject)
Keep = Callable[[KubeObject, bytes], None]


class ApiResource(msgspec.Struct, Generic[Obj], frozen=True):
    """A kind as an API server serves it; `model` is the struct that its objects are decoded into.

    `keep` receives the JSON of every listed or watched object, of which the struct holds a part. Without the
    permission to list a `dispensable` kind, the scheduler works as if there were no objects of it.
    """

    group: str
    version: str
    plural: str
    namespaced: bool
    model: type[Obj]
    keep: Keep | None = None
    dispensable: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def kind(self) -> str:
        """Models are named for their kinds."""
        return self.model.__name__

    @property
    def group_kind(self) -> str:
        """As cluster events name it: "Pod", "storage.k8s.io/CSINode"."""
        return f"{self.group}/{self.kind}" if self.group else self.kind

    @property
    def name(self) -> str:
        """As RBAC and error messages write it: "pods", "leases.coordination.k8s.io"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of all objects, of a namespace's, of one, or of a part of one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return root + scope + "/" + "/".join(filter(None, (self.plural, name, subresource)))


PODS = ApiResource("", "v1", "pods", True, Pod)
NODES = ApiResource("", "v1", "nodes", False, Node)
NAMESPACES = ApiResource("", "v1", "namespaces", False, Namespace)
SERVICES = ApiResource("", "v1", "services", True, Service)
RESOURCE_QUOTAS = ApiResource("", "v1", "resourcequotas", True, ResourceQuota)
REPLICATION_CONTROLLERS = ApiResource("", "v1", "replicationcontrollers", True, ReplicationController)
PERSISTENT_VOLUMES = ApiResource("", "v1", "persistentvolumes", False, PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = ApiResource("", "v1", "persistentvolumeclaims", True, PersistentVolumeClaim)
DEPLOYMENTS = ApiResource("apps", "v1", "deployments", True, Deployment)
REPLICA_SETS = ApiResource("apps", "v1", "replicasets", True, ReplicaSet)
STATEFUL_SETS = ApiResource("apps", "v1", "statefulsets", True, StatefulSet)
DAEMON_SETS = ApiResource("apps", "v1", "daemonsets", True, DaemonSet)
CONTROLLER_REVISIONS = ApiResource("apps", "v1", "controllerrevisions", True, ControllerRevision)
JOBS = ApiResource("batch", "v1", "jobs", True, Job)
CRON_JOBS = ApiResource("batch", "v1", "cronjobs", True, CronJob)
POD_DISRUPTION_BUDGETS = ApiResource("policy", "v1", "poddisruptionbudgets", True, PodDisruptionBudget)
PRIORITY_CLASSES = ApiResource("scheduling.k8s.io", "v1", "priorityclasses", False, PriorityClass)
POD_GROUPS = ApiResource("scheduling.k8s.io", "v1alpha2", "podgroups", True, PodGroup)
COSCHEDULING_POD_GROUPS = ApiResource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", True, coscheduling.PodGroup
)
WORKLOADS = ApiResource(
    "scheduling.k8s.io", "v1alpha2", "workloads", True, Workload, dispensable=True
)  # kube-scheduler's role does not allow to list them
STORAGE_CLASSES = ApiResource("storage.k8s.io", "v1", "storageclasses", False, StorageClass)
CSI_NODES = ApiResource("storage.k8s.io", "v1", "csinodes", False, CSINode)
CSI_DRIVERS = ApiResource("storage.k8s.io", "v1", "csidrivers", False, CSIDriver)
CSI_STORAGE_CAPACITIES = ApiResource("storage.k8s.io", "v1", "csistoragecapacities", True, CSIStorageCapacity)
VOLUME_ATTACHMENTS = ApiResource("storage.k8s.io", "v1", "volumeattachments", False, VolumeAttachment)
RESOURCE_CLAIMS = ApiResource("resource.k8s.io", "v1", "resourceclaims", True, ResourceClaim)
RESOURCE_CLAIM_TEMPLATES = ApiResource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", True, ResourceClaimTemplate
)
RESOURCE_SLICES = ApiResource("resource.k8s.io", "v1", "resourceslices", False, ResourceSlice)
DEVICE_CLASSES = ApiResource("resource.k8s.io", "v1", "deviceclasses", False, DeviceClass)
LEASES = ApiResource("coordination.k8s.io", "v1", "leases", True, Lease)
EVENTS = ApiResource("events.k8s.io", "v1", "events", True, Event)
CORE_EVENTS = ApiResource("", "v1", "events", True, CoreEvent)
CUSTOM_RESOURCE_DEFINITIONS = ApiResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", False, KubeObject
)

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
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
)  # type: ignore[assignment]
"""What the scheduler lists and watches; the models are read only, so a subclass serves as its base."""
