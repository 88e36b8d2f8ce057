"""Groups of pods that are scheduled together: scheduling.k8s.io/v1alpha2 Workload and PodGroup."""

from __future__ import annotations

import msgspec

from mooring.api.meta import Condition, KubeObject, Struct, Value

ALL_OR_NOTHING = "mooring/all-or-nothing"
"""The annotation of a Workload whose groups start together; its value is "workload"."""


class GangSchedulingPolicy(Value, frozen=True):
    min_count: int = 1


class BasicSchedulingPolicy(Value, frozen=True):
    """Members are scheduled like single pods, in one cycle."""


class PodGroupSchedulingPolicy(Value, frozen=True):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Value, frozen=True):
    key: str = ""


class PodGroupSchedulingConstraints(Value, frozen=True):
    topology: list[TopologyConstraint] = []


class PodGroupResourceClaim(Value, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupTerms(Struct):
    """What templates and groups share."""

    scheduling_policy: PodGroupSchedulingPolicy = msgspec.field(default_factory=PodGroupSchedulingPolicy)
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: list[PodGroupResourceClaim] = []
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: int | None = None


class PodGroupTemplate(PodGroupTerms):
    name: str = ""


class WorkloadPodGroupTemplateReference(Value, frozen=True):
    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateReference(Value, frozen=True):
    workload: WorkloadPodGroupTemplateReference | None = None


class PodGroupSpec(PodGroupTerms):
    pod_group_template_ref: PodGroupTemplateReference | None = None


class PodGroupResourceClaimStatus(Value, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Struct):
    conditions: list[Condition] = []
    resource_claim_statuses: list[PodGroupResourceClaimStatus] = []


class PodGroup(KubeObject):
    """Pods that name this object in spec.schedulingGroup are scheduled in one cycle."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)

    @property
    def min_count(self) -> int | None:
        """How many members must be scheduled for any to start; None for the basic policy."""
        gang = self.spec.scheduling_policy.gang
        return None if gang is None else gang.min_count

    @property
    def template(self) -> WorkloadPodGroupTemplateReference | None:
        """The template of a Workload that the group was made from."""
        reference = self.spec.pod_group_template_ref
        return None if reference is None else reference.workload

    @property
    def topology_key(self) -> str:
        """The node label whose value all members must share, or ""."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else ""

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def disrupted_as_one(self) -> bool:
        return self.spec.disruption_mode == "PodGroup"


class TypedLocalObjectReference(Value, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(Struct):
    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: list[PodGroupTemplate] = []


class Workload(KubeObject):
    """Templates of pod groups. Of these, the scheduler reads which groups start together."""

    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)

    @property
    def starts_as_one(self) -> bool:
        """Whether all groups of these templates start, or none."""
        return self.metadata.annotations.get(ALL_OR_NOTHING) == "workload"
