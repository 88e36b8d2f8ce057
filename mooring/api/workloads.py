"""Workloads, and the objects that select their pods: services, disruption budgets, priority classes."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.meta import Condition, KubeObject, LabelSelector, Struct, Value


class NamespaceSpec(Struct):
    finalizers: list[str] = []


class NamespaceStatus(Struct):
    phase: str = ""
    conditions: list[Condition] = []


class Namespace(KubeObject):
    spec: NamespaceSpec = msgspec.field(default_factory=NamespaceSpec)
    status: NamespaceStatus = msgspec.field(default_factory=NamespaceStatus)


class ServicePort(Value, frozen=True):
    name: str = ""
    port: int = 0
    protocol: str = ""
    target_port: int | str | None = None
    node_port: int = 0


class ServiceSpec(Struct):
    selector: dict[str, str] | None = None
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    publish_not_ready_addresses: bool = False
    ports: list[ServicePort] = []
    allocate_load_balancer_node_ports: bool | None = None
    traffic_distribution: str | None = None
    external_name: str = ""
    external_ips: list[str] = msgspec.field(default_factory=list, name="externalIPs")
    session_affinity: str = ""
    session_affinity_config: dict[str, Any] | None = None
    internal_traffic_policy: str | None = None
    external_traffic_policy: str = ""
    health_check_node_port: int = 0


class ServiceStatus(Struct):
    load_balancer: dict[str, Any] | None = None


class Service(KubeObject):
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)
    status: ServiceStatus = msgspec.field(default_factory=ServiceStatus)


class ReplicaSetSpec(Struct):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}


class ReplicaSetStatus(Struct):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: list[Condition] = []


class Replicas(KubeObject):
    """What keeps a number of pods of one template: a ReplicaSet, or its older form."""

    spec: ReplicaSetSpec = msgspec.field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = msgspec.field(default_factory=ReplicaSetStatus)


class ReplicaSet(Replicas):
    pass


class ReplicationControllerSpec(ReplicaSetSpec):
    selector: dict[str, str] | None = None  # type: ignore[assignment]


class ReplicationController(Replicas):
    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)


class RollingUpdateDeployment(Value, frozen=True):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DeploymentStrategy(Value, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Struct):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentCondition(Condition):
    last_update_time: str | None = None


class DeploymentStatus(Struct):
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    collision_count: int | None = None
    conditions: list[DeploymentCondition] = []


class Deployment(KubeObject):
    spec: DeploymentSpec = msgspec.field(default_factory=DeploymentSpec)
    status: DeploymentStatus = msgspec.field(default_factory=DeploymentStatus)


class ControllerRevision(KubeObject):
    """A pod template as it once was: `data` is a patch that brings it back."""

    data: dict[str, Any] = {}
    revision: int = 0


class RollingUpdate(Value, frozen=True):
    partition: int = 0
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class UpdateStrategy(Value, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class SetSpec(Struct):
    """What both have."""

    selector: LabelSelector | None = None
    template: dict[str, Any] = {}
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class ClaimRetentionPolicy(Value, frozen=True):
    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(Value, frozen=True):
    start: int = 0


class StatefulSetSpec(SetSpec):
    replicas: int = 1
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    volume_claim_templates: list[dict[str, Any]] = []
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy = ClaimRetentionPolicy()
    ordinals: Ordinals = Ordinals()


class StatefulSetStatus(Struct):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None


class StatefulSet(KubeObject):
    spec: StatefulSetSpec = msgspec.field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = msgspec.field(default_factory=StatefulSetStatus)


class DaemonSetSpec(SetSpec):
    pass


class DaemonSetStatus(Struct):
    observed_generation: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None


class DaemonSet(KubeObject):
    spec: DaemonSetSpec = msgspec.field(default_factory=DaemonSetSpec)
    status: DaemonSetStatus = msgspec.field(default_factory=DaemonSetStatus)


class PodDisruptionBudgetSpec(Struct):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Struct):
    observed_generation: int = 0
    disrupted_pods: dict[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: list[Condition] = []


class PodDisruptionBudget(KubeObject):
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class PriorityClass(KubeObject):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
