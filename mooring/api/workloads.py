"""The objects that select or group pods: namespaces, services, controllers, disruption budgets."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.meta import KubeObject, LabelSelector, Struct


class Namespace(KubeObject):
    pass


class ServiceSpec(Struct):
    selector: dict[str, str] | None = None


class Service(KubeObject):
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class ReplicationControllerSpec(Struct):
    selector: dict[str, str] | None = None


class ReplicationController(KubeObject):
    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)


class SetSpec(Struct):
    """The part of a ReplicaSet's or StatefulSet's spec that the scheduler reads."""

    selector: LabelSelector | None = None


class ReplicaSet(KubeObject):
    spec: SetSpec = msgspec.field(default_factory=SetSpec)


class StatefulSet(KubeObject):
    spec: SetSpec = msgspec.field(default_factory=SetSpec)


class PodDisruptionBudgetSpec(Struct):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] = {}


class PodDisruptionBudget(KubeObject):
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class PriorityClass(KubeObject):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
