"""StatefulSet, DaemonSet and the ControllerRevisions that both keep, as their controllers read them."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.meta import KubeObject, LabelSelector, Struct, Value


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
