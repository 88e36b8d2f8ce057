"""Deployment, ReplicaSet and ReplicationController, as their controllers read them."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.meta import Condition, KubeObject, LabelSelector, Struct, Value


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
