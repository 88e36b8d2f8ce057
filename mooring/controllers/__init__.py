"""The controllers that a cluster needs for its workloads: kube-controller-manager's, on one event loop."""

from __future__ import annotations

from mooring.cluster.controller import Context, Controller
from mooring.controllers.cron_job import CronJobController
from mooring.controllers.daemon_set import DaemonSetController
from mooring.controllers.deployment import DeploymentController
from mooring.controllers.disruption import DisruptionController
from mooring.controllers.ephemeral_volumes import EphemeralVolumes
from mooring.controllers.event_expiry import EventExpiry
from mooring.controllers.every_namespace import RootCertificates, ServiceAccounts
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.job import JobController, OrphanedJobPods
from mooring.controllers.namespace import NamespaceController
from mooring.controllers.node_lifecycle import NodeLifecycle, SimulatedNodes
from mooring.controllers.pod_gc import PodGC
from mooring.controllers.provisioner import Provisioner
from mooring.controllers.replica_set import ReplicaSetController, ReplicationControllerController
from mooring.controllers.resource_quota import ResourceQuotaController
from mooring.controllers.role_aggregation import RoleAggregation
from mooring.controllers.stateful_set import StatefulSetController
from mooring.controllers.taint_eviction import TaintEviction
from mooring.controllers.ttl_after_finished import TTLAfterFinishedController
from mooring.controllers.volume_protection import VolumeProtection
from mooring.controllers.volumes import VolumeBinder


def controllers(
    context: Context, simulated: SimulatedNodes | None = None, authority: bytes = b""
) -> list[Controller]:
    """One of each. `simulated` are nodes of which more is known here than leases tell; `authority` is what
    pods are to trust the API server by, in PEM, where it has a certificate."""
    return [
        DeploymentController(context),
        ReplicaSetController(context),
        ReplicationControllerController(context),
        NodeLifecycle(context, simulated),
        TaintEviction(context),
        PodGC(context),
        NamespaceController(context),
        ServiceAccounts(context),
        DisruptionController(context),
        EventExpiry(context),
        VolumeBinder(context),
        Provisioner(context),
        VolumeProtection(context),
        EphemeralVolumes(context),
        ResourceQuotaController(context),
        RoleAggregation(context),
        GarbageCollector(context),
        StatefulSetController(context),
        DaemonSetController(context),
        JobController(context),
        OrphanedJobPods(context),
        TTLAfterFinishedController(context),
        CronJobController(context),
        *([RootCertificates(context, authority.decode())] if authority else []),
    ]
