"""The controllers that a cluster needs for its workloads: kube-controller-manager's, on one event loop."""

from __future__ import annotations

from collections.abc import Collection

from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.admission_policy_status import AdmissionPolicyStatus, CheckTypes
from mooring.sandbox.controllers.certificate_signer import CertificateSigner
from mooring.sandbox.controllers.cron_job import CronJobController
from mooring.sandbox.controllers.daemon_set import DaemonSetController
from mooring.sandbox.controllers.deployment import DeploymentController
from mooring.sandbox.controllers.device_taint_eviction import DeviceTaintEviction
from mooring.sandbox.controllers.disruption import DisruptionController
from mooring.sandbox.controllers.endpoint_mirroring import EndpointMirroring
from mooring.sandbox.controllers.endpoint_slices import EndpointSlices
from mooring.sandbox.controllers.ephemeral_volumes import EphemeralVolumes
from mooring.sandbox.controllers.event_expiry import EventExpiry
from mooring.sandbox.controllers.every_namespace import RootCertificates, ServiceAccounts
from mooring.sandbox.controllers.flow_schema_status import FlowSchemaStatuses
from mooring.sandbox.controllers.garbage_collector import GarbageCollector
from mooring.sandbox.controllers.horizontal_pod_autoscaler import HorizontalPodAutoscalerController
from mooring.sandbox.controllers.job import JobController, OrphanedJobPods
from mooring.sandbox.controllers.namespace import NamespaceController
from mooring.sandbox.controllers.node_lifecycle import NodeLifecycle, SimulatedNodes
from mooring.sandbox.controllers.pod_gc import PodGC
from mooring.sandbox.controllers.pod_group_phase import PodGroupPhase
from mooring.sandbox.controllers.pod_group_protection import PodGroupProtection
from mooring.sandbox.controllers.provisioner import Provisioner
from mooring.sandbox.controllers.replica_set import ReplicaSetController, ReplicationControllerController
from mooring.sandbox.controllers.resource_claim import ResourceClaimController
from mooring.sandbox.controllers.resource_quota import ResourceQuotaController
from mooring.sandbox.controllers.role_aggregation import RoleAggregation
from mooring.sandbox.controllers.service_cidrs import ServiceCIDRs
from mooring.sandbox.controllers.stateful_set import StatefulSetController
from mooring.sandbox.controllers.taint_eviction import TaintEviction
from mooring.sandbox.controllers.ttl_after_finished import TTLAfterFinishedController
from mooring.sandbox.controllers.volume_binder import VolumeBinder
from mooring.sandbox.controllers.volume_protection import VolumeProtection
from mooring.sandbox.programs.loads import Loads
from mooring.serving.certificates import KeyPair


def controllers(
    context: Context,
    simulated: SimulatedNodes | None = None,
    signer: KeyPair | None = None,
    features: Collection[str] = (),
    coscheduling: bool = False,
    check_types: CheckTypes | None = None,
    loads: Loads | None = None,
) -> list[Controller]:
    """Return one controller of each kind. `simulated` knows the state of nodes without their leases;
    `signer` is the API server's CA with its key, if it is served: pods get the certificate, and it signs
    requests;
    `features` are the alpha features that are enabled; with `coscheduling`, PodGroups of scheduler-plugins
    get their status; `check_types` finds mistakes in admission policies, for their status;
    `loads` has what clients of pods have them use."""
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
        ResourceClaimController(context),
        DeviceTaintEviction(context),
        ResourceQuotaController(context),
        RoleAggregation(context),
        EndpointSlices(context),
        EndpointMirroring(context),
        GarbageCollector(context),
        StatefulSetController(context),
        DaemonSetController(context),
        JobController(context, with_groups="WorkloadWithJob" in features),
        OrphanedJobPods(context),
        TTLAfterFinishedController(context),
        CronJobController(context),
        HorizontalPodAutoscalerController(context, loads),
        FlowSchemaStatuses(context),
        *([PodGroupProtection(context)] if "GenericWorkload" in features else []),
        *([PodGroupPhase(context)] if coscheduling else []),
        *([AdmissionPolicyStatus(context, check_types)] if check_types is not None else []),
        *(
            [
                RootCertificates(context, signer.certificate.decode()),
                CertificateSigner(context, signer),
                ServiceCIDRs(context),
            ]
            if signer is not None
            else []
        ),
    ]
