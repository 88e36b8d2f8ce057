"""Workload and PodGroup of scheduling.k8s.io/v1alpha2, which lightkube-models lacks, in its form.

v1.36 serves it if the feature gate GenericWorkload is on; v1.37 replaced it.
"""

from __future__ import annotations

from typing import Any

from mooring.sandbox.apiserver.kinds.models import ApiInfo, Namespaced, ResourceDef

_GROUP, _VERSION = "scheduling.k8s.io", "v1alpha2"
_VERBS = [
    "delete", "deletecollection", "get", "global_list", "global_watch", "list", "patch", "post", "put",
    "watch",
]  # fmt: skip


def _model(name: str, about: str, /, **members: tuple[str, str]) -> type:
    """Make a model of members with their types and descriptions; those that are Optional have a default."""
    lines = [f"* **{member}** ``{type}`` - {text}" for member, (type, text) in members.items()]
    namespace: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": "\n".join([about, "", "**parameters**", "", *lines]),
        "__annotations__": {member: type for member, (type, _) in members.items()},
    }
    defaults = {member: None for member, (type, _) in members.items() if type.startswith("Optional[")}
    return type(name, (), namespace | defaults)


_OBJECT = {
    "apiVersion": ("Optional[str]", "The version of the schema of this object."),
    "kind": ("Optional[str]", "The kind of this object."),
    "metadata": ("Optional[meta_v1.ObjectMeta]", "Standard object's metadata."),
}
_TERMS = {
    "schedulingPolicy": (
        "PodGroupSchedulingPolicy",
        "How the pods of the group are scheduled. Immutable.",
    ),
    "schedulingConstraints": (
        "Optional[PodGroupSchedulingConstraints]",
        "Constraints on the nodes of the group. Needs the feature gate TopologyAwareWorkloadScheduling.",
    ),
    "resourceClaims": (
        "Optional[List[PodGroupResourceClaim]]",
        "Claims that the pods of the group share. Needs the feature gate DRAWorkloadResourceClaims.",
    ),
    "disruptionMode": (
        "Optional[str]",
        "Whether pods are disrupted one by one (Pod) or the group as a whole (PodGroup). "
        "Needs the feature gate WorkloadAwarePreemption.",
    ),
    "priorityClassName": (
        "Optional[str]",
        "The priority class of the group. Needs the feature gate WorkloadAwarePreemption.",
    ),
    "priority": (
        "Optional[int]",
        "The priority of the group, computed from its class. Needs the feature gate WorkloadAwarePreemption.",
    ),
}

BasicSchedulingPolicy = _model("BasicSchedulingPolicy", "Pods of the group are scheduled one by one.")
GangSchedulingPolicy = _model(
    "GangSchedulingPolicy",
    "A number of pods of the group is scheduled at the same time, or none.",
    minCount=("int", "The number of pods that must be schedulable at the same time; at least 1."),
)
PodGroupSchedulingPolicy = _model(
    "PodGroupSchedulingPolicy",
    "How the pods of a group are scheduled: exactly one member is set.",
    basic=("Optional[BasicSchedulingPolicy]", "Pods are scheduled one by one."),
    gang=("Optional[GangSchedulingPolicy]", "Pods are scheduled all or nothing."),
)
TopologyConstraint = _model(
    "TopologyConstraint",
    "Restricts a group to one domain.",
    key=("str", "The label of nodes whose value all pods of the group share."),
)
PodGroupSchedulingConstraints = _model(
    "PodGroupSchedulingConstraints",
    "Constraints on the nodes of a group.",
    topology=("Optional[List[TopologyConstraint]]", "Topology constraints, at most one."),
)
PodGroupResourceClaim = _model(
    "PodGroupResourceClaim",
    "A claim that the pods of a group share: by its name, or by that of a template.",
    name=("str", "The name of this entry."),
    resourceClaimName=("Optional[str]", "The name of a ResourceClaim."),
    resourceClaimTemplateName=("Optional[str]", "The name of a ResourceClaimTemplate."),
)
PodGroupTemplate = _model(
    "PodGroupTemplate",
    "The terms of a kind of group in a workload.",
    name=("str", "The name of the template, a DNS label."),
    **_TERMS,
)
TypedLocalObjectReference = _model(
    "TypedLocalObjectReference",
    "A reference to an object in the same namespace.",
    kind=("str", "The kind of the object."),
    name=("str", "The name of the object."),
    apiGroup=("Optional[str]", "The API group of the object; empty for the core group."),
)
WorkloadSpec = _model(
    "WorkloadSpec",
    "The groups of a workload.",
    podGroupTemplates=("List[PodGroupTemplate]", "Templates of groups, 1 to 8. Immutable."),
    controllerRef=("Optional[TypedLocalObjectReference]", "The object that the workload is for. Immutable."),
)
Workload = _model(
    "Workload",
    "Workload describes the groups of pods of an application.",
    spec=("WorkloadSpec", "The groups of the workload."),
    **_OBJECT,
)
WorkloadPodGroupTemplateReference = _model(
    "WorkloadPodGroupTemplateReference",
    "A reference to a template of a workload.",
    podGroupTemplateName=("str", "The name of the template."),
    workloadName=("str", "The name of the workload."),
)
PodGroupTemplateReference = _model(
    "PodGroupTemplateReference",
    "A reference to the template of a group.",
    workload=("Optional[WorkloadPodGroupTemplateReference]", "The template of a workload."),
)
PodGroupSpec = _model(
    "PodGroupSpec",
    "The terms of a group.",
    podGroupTemplateRef=("Optional[PodGroupTemplateReference]", "The template of the group. Immutable."),
    **_TERMS,
)
PodGroupResourceClaimStatus = _model(
    "PodGroupResourceClaimStatus",
    "The claim that was generated from a template.",
    name=("str", "The name of the entry in spec.resourceClaims."),
    resourceClaimName=("Optional[str]", "The name of the generated claim."),
)
PodGroupStatus = _model(
    "PodGroupStatus",
    "The state of a group.",
    conditions=("Optional[List[meta_v1.Condition]]", "Conditions: PodGroupScheduled, DisruptionTarget."),
    resourceClaimStatuses=("Optional[List[PodGroupResourceClaimStatus]]", "Generated claims."),
)
PodGroup = _model(
    "PodGroup",
    "PodGroup is a set of pods that are scheduled together.",
    spec=("PodGroupSpec", "The terms of the group."),
    status=("Optional[PodGroupStatus]", "The state of the group."),
    **_OBJECT,
)


def _list(model: type) -> type:
    kind = model.__name__
    return _model(
        f"{kind}List",
        f"{kind}List is a list of objects of kind {kind}.",
        items=(f"List[{kind}]", "The objects."),
        **_OBJECT | {"metadata": ("Optional[meta_v1.ListMeta]", "Standard list metadata.")},
    )


WorkloadList, PodGroupList = _list(Workload), _list(PodGroup)


def _served(model: type, info: ApiInfo) -> type:
    return type(f"Served{model.__name__}", (Namespaced, model), {"_api_info": info})


_POD_GROUP = ResourceDef(_GROUP, _VERSION, "PodGroup")
WORKLOADS = _served(Workload, ApiInfo(ResourceDef(_GROUP, _VERSION, "Workload"), "workloads", _VERBS))
POD_GROUPS = _served(PodGroup, ApiInfo(_POD_GROUP, "podgroups", _VERBS))
POD_GROUP_STATUS = _served(
    PodGroup, ApiInfo(_POD_GROUP, "podgroups", ["get", "patch", "put"], _POD_GROUP, "status")
)
