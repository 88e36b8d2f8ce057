"""The kinds that controllers and nodes share in one cache, each with the one model it is read by there."""

from __future__ import annotations

from mooring.api.coordination import Lease
from mooring.api.meta import KubeObject
from mooring.api.running import Node, Pod
from mooring.client.kinds import ApiResource
from mooring.sandbox.controllers.jobs import CronJob, Job
from mooring.sandbox.controllers.replicas import Deployment, ReplicaSet, ReplicationController
from mooring.sandbox.controllers.sets import ControllerRevision, DaemonSet, StatefulSet
from mooring.sandbox.controllers.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

PODS = ApiResource("", "v1", "pods", True, Pod)
NODES = ApiResource("", "v1", "nodes", False, Node)
DEPLOYMENTS = ApiResource("apps", "v1", "deployments", True, Deployment)
REPLICA_SETS = ApiResource("apps", "v1", "replicasets", True, ReplicaSet)
REPLICATION_CONTROLLERS = ApiResource("", "v1", "replicationcontrollers", True, ReplicationController)
STATEFUL_SETS = ApiResource("apps", "v1", "statefulsets", True, StatefulSet)
DAEMON_SETS = ApiResource("apps", "v1", "daemonsets", True, DaemonSet)
CONTROLLER_REVISIONS = ApiResource("apps", "v1", "controllerrevisions", True, ControllerRevision)
JOBS = ApiResource("batch", "v1", "jobs", True, Job)
CRON_JOBS = ApiResource("batch", "v1", "cronjobs", True, CronJob)
PERSISTENT_VOLUME_CLAIMS = ApiResource("", "v1", "persistentvolumeclaims", True, PersistentVolumeClaim)
PERSISTENT_VOLUMES = ApiResource("", "v1", "persistentvolumes", False, PersistentVolume)
STORAGE_CLASSES = ApiResource("storage.k8s.io", "v1", "storageclasses", False, StorageClass)
LEASES = ApiResource("coordination.k8s.io", "v1", "leases", True, Lease)
CUSTOM_RESOURCE_DEFINITIONS = ApiResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", False, KubeObject
)
