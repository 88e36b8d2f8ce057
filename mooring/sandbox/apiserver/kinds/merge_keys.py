"""How lists and maps of built-in kinds are merged, which lightkube-models lacks.

There are two sets of rules, and they do not always agree. Strategic merge patches use `patch_strategy` and
`merge_key`; server-side apply uses list types, map keys and map types. OpenAPI serves both, as
`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`, `x-kubernetes-list-type`,
`x-kubernetes-list-map-keys` and `x-kubernetes-map-type`.

Names are those of lightkube-models: `core_v1.PodSpec.containers`. Everything that is not named here follows
the rule: lists are replaced as a whole (atomic), objects and maps are merged member by member (granular).
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from mooring.sandbox.apiserver.kinds.types import ObjectType

ListType = Literal["atomic", "set", "map"]


class Merging(NamedTuple):
    """How one field is merged."""

    list_type: ListType = "atomic"
    map_keys: tuple[str, ...] = ()
    patch_strategy: tuple[str, ...] = ()
    merge_key: str = ""


REPLACED: Final = Merging()


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _keyed(*keys: str, strategy: tuple[str, ...] = ("merge",)) -> Merging:
    """A list of objects with a key; strategic merge patches use the first part of the key only."""
    return Merging("map", keys, strategy, keys[0])


_FIELDS: Final = {
    _keyed("name"): """
        admissionregistration_v1.MutatingAdmissionPolicySpec.matchConditions
        admissionregistration_v1.MutatingWebhook.matchConditions
        admissionregistration_v1.MutatingWebhookConfiguration.webhooks
        admissionregistration_v1.ValidatingAdmissionPolicySpec.matchConditions
        admissionregistration_v1.ValidatingAdmissionPolicySpec.variables
        admissionregistration_v1.ValidatingWebhook.matchConditions
        admissionregistration_v1.ValidatingWebhookConfiguration.webhooks
        core_v1.Container.env core_v1.EphemeralContainer.env
        core_v1.ContainerStatus.allocatedResourcesStatus
        core_v1.PodSpec.containers core_v1.PodSpec.ephemeralContainers core_v1.PodSpec.initContainers
        core_v1.PodSpec.imagePullSecrets core_v1.PodSpec.schedulingGates
        core_v1.ServiceAccount.secrets storage_v1.CSINodeSpec.drivers
    """,
    _keyed("name", strategy=("merge", "retainKeys")): """
        core_v1.PodSpec.resourceClaims core_v1.PodSpec.volumes core_v1.PodStatus.resourceClaimStatuses
        scheduling_v1alpha2.PodGroupSpec.resourceClaims
        scheduling_v1alpha2.PodGroupStatus.resourceClaimStatuses
        scheduling_v1alpha2.PodGroupTemplate.resourceClaims
    """,
    _keyed("type"): """
        apiregistration_v1.APIServiceStatus.conditions apps_v1.DaemonSetStatus.conditions
        apps_v1.DeploymentStatus.conditions apps_v1.ReplicaSetStatus.conditions
        apps_v1.StatefulSetStatus.conditions autoscaling_v2.HorizontalPodAutoscalerStatus.conditions
        core_v1.ComponentStatus.conditions core_v1.NamespaceStatus.conditions core_v1.NodeStatus.addresses
        core_v1.NodeStatus.conditions core_v1.PersistentVolumeClaimStatus.conditions
        core_v1.PodStatus.conditions core_v1.ReplicationControllerStatus.conditions
        core_v1.ServiceStatus.conditions flowcontrol_v1.FlowSchemaStatus.conditions
        flowcontrol_v1.PriorityLevelConfigurationStatus.conditions
        networking_v1.ServiceCIDRStatus.conditions policy_v1.PodDisruptionBudgetStatus.conditions
        scheduling_v1alpha2.PodGroupStatus.conditions
    """,
    _keyed("uid"): "meta_v1.ObjectMeta.ownerReferences resource_v1.ResourceClaimStatus.reservedFor",
    _keyed("ip"): "core_v1.PodSpec.hostAliases core_v1.PodStatus.podIPs",
    _keyed("rule"): "apiextensions_v1.JSONSchemaProps.x-kubernetes-validations",
    _keyed("mountPath"): """
        core_v1.Container.volumeMounts core_v1.ContainerStatus.volumeMounts
        core_v1.EphemeralContainer.volumeMounts
    """,
    _keyed("devicePath"): "core_v1.Container.volumeDevices core_v1.EphemeralContainer.volumeDevices",
    _keyed("containerPort", "protocol"): "core_v1.Container.ports core_v1.EphemeralContainer.ports",
    _keyed("port", "protocol"): "core_v1.ServiceSpec.ports",
    _keyed("topologyKey", "whenUnsatisfiable"): "core_v1.PodSpec.topologySpreadConstraints",
    Merging("map", ("type",)): """
        admissionregistration_v1.ValidatingAdmissionPolicyStatus.conditions
        apiextensions_v1.CustomResourceDefinitionStatus.conditions
        certificates_v1.CertificateSigningRequestStatus.conditions
        resource_v1.AllocatedDeviceStatus.conditions
    """,
    Merging("map", ("name",)): """
        core_v1.ResourceRequirements.claims scheduling_v1alpha2.WorkloadSpec.podGroupTemplates
    """,
    Merging("map", ("resourceID",)): "core_v1.ResourceStatus.resources",
    Merging("map", ("driver", "device", "pool", "shareID")): "resource_v1.ResourceClaimStatus.devices",
    Merging("set"): """
        admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec.validationActions
        batch_v1.PodFailurePolicyOnExitCodesRequirement.values
        batch_v1.UncountedTerminatedPods.failed batch_v1.UncountedTerminatedPods.succeeded
        core_v1.ContainerRestartRuleOnExitCodes.values
        core_v1.NodeAllocatableResourceClaimStatus.containers
        discovery_v1.Endpoint.addresses flowcontrol_v1.NonResourcePolicyRule.nonResourceURLs
        flowcontrol_v1.NonResourcePolicyRule.verbs flowcontrol_v1.ResourcePolicyRule.apiGroups
        flowcontrol_v1.ResourcePolicyRule.namespaces flowcontrol_v1.ResourcePolicyRule.resources
        flowcontrol_v1.ResourcePolicyRule.verbs storage_v1.CSIDriverSpec.volumeLifecycleModes
    """,
    Merging("set", (), ("merge",)): "core_v1.NodeSpec.podCIDRs meta_v1.ObjectMeta.finalizers",
    Merging("atomic", (), ("merge",), "type"): "batch_v1.JobStatus.conditions",
    Merging("atomic", (), ("merge",), "ip"): "core_v1.PodStatus.hostIPs",
    Merging(patch_strategy=("retainKeys",)): "apps_v1.DeploymentSpec.strategy",
    Merging(patch_strategy=("replace",)): "policy_v1.PodDisruptionBudgetSpec.selector",
}
_MERGING: Final = {name: merging for merging, text in _FIELDS.items() for name in _names(text)}

_ATOMIC_TYPES: Final = _names(
    """
    admissionregistration_v1.MatchResources admissionregistration_v1.NamedRuleWithOperations
    admissionregistration_v1.ParamKind admissionregistration_v1.ParamRef admissionregistration_v1.Variable
    autoscaling_v1.CrossVersionObjectReference core_v1.ConfigMapKeySelector core_v1.EndpointAddress
    core_v1.EndpointPort core_v1.FileKeySelector core_v1.LocalObjectReference core_v1.NodeSelector
    core_v1.NodeSelectorTerm core_v1.ObjectFieldSelector core_v1.ObjectReference
    core_v1.ResourceFieldSelector core_v1.ScopeSelector core_v1.SecretKeySelector core_v1.SecretReference
    core_v1.TopologySelectorTerm core_v1.TypedLocalObjectReference discovery_v1.EndpointPort
    meta_v1.LabelSelector meta_v1.OwnerReference networking_v1.ServiceBackendPort rbac_v1.RoleRef
    rbac_v1.Subject
    """
)
_ATOMIC_MAPS: Final = _names(
    """
    core_v1.PodSpec.nodeSelector core_v1.ReplicationControllerSpec.selector core_v1.ServiceSpec.selector
    node_v1.Scheduling.nodeSelector
    """
)
_GRANULAR: Final = frozenset({"core_v1.PersistentVolumeSpec.claimRef"})
"""Fields that are merged member by member although their type is atomic elsewhere."""

_KEY_DEFAULTS: Final = {"protocol": "TCP"}


def merging_of(owner: ObjectType, field: str) -> Merging:
    """Return how a field of a type is merged."""
    return _MERGING.get(f"{owner}.{field}", REPLACED)


def is_atomic(owner: ObjectType, field: str, type: ObjectType | None) -> bool:
    """Whether a field that holds a map (`type` is None) or an object has a single owner."""
    name = f"{owner}.{field}"
    if type is None:
        return name in _ATOMIC_MAPS
    return str(type) in _ATOMIC_TYPES and name not in _GRANULAR


def key_default(item: ObjectType, key: str) -> str | int | None:
    """Return the default of a part of a list's key; None if it has none."""
    if key in _KEY_DEFAULTS:
        return _KEY_DEFAULTS[key]
    field = item.fields[key]
    if field.required or str(item) == "core_v1.LocalObjectReference":
        return 0 if key in ("port", "containerPort") else ""
    return None
