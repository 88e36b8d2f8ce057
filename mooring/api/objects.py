"""Pod and Node: the fields that the scheduler, controllers and kubelets read."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.meta import Condition, KubeObject, LabelSelector, ResourceList, Struct, Value

# ---- scheduling constraints -------------------------------------------------------------------


class Taint(Value, frozen=True):
    key: str
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(Value, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(Value, frozen=True):
    key: str
    operator: str
    values: list[str] = []


class NodeSelectorTerm(Value, frozen=True):
    match_expressions: list[NodeSelectorRequirement] = []
    match_fields: list[NodeSelectorRequirement] = []


class NodeSelector(Value, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(Value, frozen=True):
    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Value, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredSchedulingTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Value, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(Value, frozen=True):
    weight: int
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Value, frozen=True):
    """Both podAffinity and podAntiAffinity have this form."""

    required: list[PodAffinityTerm] = msgspec.field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] = msgspec.field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Value, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Value, frozen=True):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


# ---- containers and volumes -------------------------------------------------------------------


class ResourceRequirements(Value, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(Value, frozen=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class RestartPolicyRule(Value, frozen=True):
    action: str = ""


class Container(Value, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: list[ContainerPort] = []
    restart_policy: str | None = None
    restart_policy_rules: list[RestartPolicyRule] = []


class PersistentVolumeClaimSource(Value, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class GCEPersistentDisk(Value, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Value, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class AzureDisk(Value, frozen=True):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")


class AzureFile(Value, frozen=True):
    secret_name: str = ""
    share_name: str = ""


class Cinder(Value, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(Value, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class VsphereVolume(Value, frozen=True):
    volume_path: str = ""


class ISCSI(Value, frozen=True):
    iqn: str = ""
    lun: int = 0
    target_portal: str = ""
    read_only: bool = False


class RBD(Value, frozen=True):
    monitors: list[str] = []
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class CSIVolume(Value, frozen=True):
    driver: str = ""


class ImageVolume(Value, frozen=True):
    reference: str = ""


class EphemeralVolume(Value, frozen=True):
    volume_claim_template: Any = None


class Volume(Value, frozen=True):
    """A volume of a pod; the sources that no scheduler plugin looks at are passed over."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    csi: CSIVolume | None = None
    image: ImageVolume | None = None


# ---- pods ---------------------------------------------------------------------------------------


class PodSchedulingGate(Value, frozen=True):
    name: str = ""


class PodResourceClaim(Value, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Value, frozen=True):
    pod_group_name: str | None = None


class PodReadinessGate(Value, frozen=True):
    condition_type: str = ""


class PodSpec(Struct):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    containers: list[Container] = []
    init_containers: list[Container] = []
    volumes: list[Volume] = []
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    host_network: bool = False
    host_users: bool | None = None
    scheduling_gates: list[PodSchedulingGate] = []
    resource_claims: list[PodResourceClaim] = []
    scheduling_group: PodSchedulingGroup | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    readiness_gates: list[PodReadinessGate] = []
    hostname: str = ""
    subdomain: str = ""


class ContainerStateTerminated(Value, frozen=True):
    exit_code: int = 0
    reason: str = ""
    finished_at: str | None = None


class ContainerStateWaiting(Value, frozen=True):
    reason: str = ""


class ContainerStateRunning(Value, frozen=True):
    started_at: str | None = None


class ContainerState(Value, frozen=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Value, frozen=True):
    name: str = ""
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodResourceClaimStatus(Value, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Value, frozen=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Value, frozen=True):
    request_mappings: list[ContainerExtendedResourceRequest] = []
    resource_claim_name: str = ""


class PodStatus(Struct):
    phase: str = ""
    conditions: list[Condition] = []
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
    reason: str = ""
    message: str = ""
    qos_class: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    resource_claim_statuses: list[PodResourceClaimStatus] = []
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(KubeObject):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        """Whether the pod has reached a terminal phase."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Whether the pod is neither finished nor being deleted: controllers count these."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in ("Succeeded", "Failed")

    @property
    def ready_since(self) -> str | None:
        """When the pod became ready; None if it is not ready."""
        for condition in self.status.conditions:
            if condition.type == "Ready" and condition.status == "True":
                return condition.last_transition_time or ""
        return None

    @property
    def ready(self) -> bool:
        return self.ready_since is not None


# ---- nodes --------------------------------------------------------------------------------------


class NodeSpec(Struct):
    unschedulable: bool = False
    taints: list[Taint] = []


class ContainerImage(Value, frozen=True):
    names: list[str] = []
    size_bytes: int = 0


class NodeCondition(Condition):
    last_heartbeat_time: str | None = None


class NodeAddress(Value, frozen=True):
    type: str = ""
    address: str = ""


class NodeStatus(Struct):
    allocatable: ResourceList = {}
    capacity: ResourceList = {}
    conditions: list[NodeCondition] = []
    addresses: list[NodeAddress] = []
    images: list[ContainerImage] = []
    declared_features: list[str] = []


class Node(KubeObject):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    def condition(self, type: str) -> NodeCondition | None:
        return next((one for one in self.status.conditions if one.type == type), None)

    @property
    def ready(self) -> bool:
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"
