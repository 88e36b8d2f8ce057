"""Pods and nodes as those see them who run them and count them: kubelets and controllers.

The scheduler reads less of them, thousands of times a second; here is the rest.
"""

from __future__ import annotations

import msgspec

from mooring.api import objects
from mooring.api.meta import Condition, Value


class PodReadinessGate(Value, frozen=True):
    condition_type: str = ""


class PodSpec(objects.PodSpec):
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


class ContainerStatus(objects.ContainerStatus, frozen=True):
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(objects.PodStatus):
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    container_statuses: list[ContainerStatus] = []  # type: ignore[assignment]
    init_container_statuses: list[ContainerStatus] = []  # type: ignore[assignment]


class Pod(objects.Pod):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def terminal(self) -> bool:
        """Whether it has run to its end."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Whether it runs or may still run: controllers count these."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in ("Succeeded", "Failed")

    @property
    def ready_since(self) -> str | None:
        """When it became ready, if it is."""
        for condition in self.status.conditions:
            if condition.type == "Ready" and condition.status == "True":
                return condition.last_transition_time or ""
        return None

    @property
    def ready(self) -> bool:
        return self.ready_since is not None


class Taint(objects.Taint, frozen=True):
    time_added: str | None = None


class NodeSpec(objects.NodeSpec):
    taints: list[Taint] = []  # type: ignore[assignment]


class NodeCondition(Condition):
    last_heartbeat_time: str | None = None


class NodeAddress(Value, frozen=True):
    type: str = ""
    address: str = ""


class NodeStatus(objects.NodeStatus):
    conditions: list[NodeCondition] = []  # type: ignore[assignment]
    addresses: list[NodeAddress] = []


class Node(objects.Node):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    def condition(self, type: str) -> NodeCondition | None:
        return next((one for one in self.status.conditions if one.type == type), None)

    @property
    def ready(self) -> bool:
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"
