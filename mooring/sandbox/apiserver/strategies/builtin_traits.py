"""The traits of built-in kinds, by the table they are stored in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mooring.sandbox.apiserver.context.traits import Traits
from mooring.sandbox.apiserver.validation.names import dns_label, dns_subdomain, ip_address, path_segment

_GENERATION: Final = frozenset(
    {
        "cronjobs.batch", "customresourcedefinitions.apiextensions.k8s.io", "daemonsets.apps",
        "deployments.apps", "deviceclasses.resource.k8s.io", "devicetaintrules.resource.k8s.io",
        "endpointslices.discovery.k8s.io",
        "flowschemas.flowcontrol.apiserver.k8s.io", "ingressclasses.networking.k8s.io",
        "ingresses.networking.k8s.io", "jobs.batch", "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io", "networkpolicies.networking.k8s.io",
        "poddisruptionbudgets.policy", "pods", "podtemplates", "priorityclasses.scheduling.k8s.io",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "replicasets.apps",
        "replicationcontrollers", "resourceslices.resource.k8s.io", "statefulsets.apps",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    }
)  # fmt: skip
_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_STATUS_KEEPS: Final[dict[str, tuple[str, ...]]] = {
    "deployments.apps": ("labels",),
    "devicetaintrules.resource.k8s.io": _METADATA,
    "flowschemas.flowcontrol.apiserver.k8s.io": _METADATA,
    "podgroups.scheduling.k8s.io": _METADATA,
    "pods": ("ownerReferences",),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _METADATA,
    "resourceclaims.resource.k8s.io": _METADATA,
    "servicecidrs.networking.k8s.io": _METADATA,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _METADATA,
    "volumeattachments.storage.k8s.io": _METADATA,
}
_CREATE_ON_UPDATE: Final = frozenset(
    {
        "clusterrolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
        "endpoints", "events", "leases.coordination.k8s.io", "limitranges",
        "rolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io", "runtimeclasses.node.k8s.io", "services",
    }
)  # fmt: skip
_NEEDS_VERSION: Final = frozenset(
    {
        "apiservices.apiregistration.k8s.io", "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io", "customresourcedefinitions.apiextensions.k8s.io",
        "leases.coordination.k8s.io", "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io", "poddisruptionbudgets.policy",
        "runtimeclasses.node.k8s.io", "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io", "volumeattachments.storage.k8s.io",
    }
)  # fmt: skip
_RETURN_DELETED: Final = frozenset(
    {
        "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "deviceclasses.resource.k8s.io",
        "devicetaintrules.resource.k8s.io", "namespaces",
        "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
        "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io", "resourcequotas",
        "resourceslices.resource.k8s.io", "serviceaccounts", "services", "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io", "volumeattributesclasses.storage.k8s.io",
    }
)  # fmt: skip
_ORPHAN_BY_DEFAULT: Final = frozenset({"jobs.batch", "replicationcontrollers"})
_NAMES: Final[dict[str, Callable[[str], Sequence[str]]]] = {
    "apiservices.apiregistration.k8s.io": path_segment,
    "namespaces": dns_label,
    "services": dns_label,
    "clusterrolebindings.rbac.authorization.k8s.io": path_segment,
    "clusterroles.rbac.authorization.k8s.io": path_segment,
    "ipaddresses.networking.k8s.io": ip_address,
    "rolebindings.rbac.authorization.k8s.io": path_segment,
    "roles.rbac.authorization.k8s.io": path_segment,
}
_SELECTABLE: Final[dict[str, tuple[str, ...]]] = {
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
    "events": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type",
    ),
    "jobs.batch": ("status.successful",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "pods": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    ),
    "replicasets.apps": ("status.replicas",),
    "replicationcontrollers": ("status.replicas",),
    "resourceslices.resource.k8s.io": ("spec.nodeName", "spec.driver"),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
}  # fmt: skip


def traits_of(storage: str, *, status: bool) -> Traits:
    """Return the traits of a built-in kind; `status` is whether it has that subresource."""
    return Traits(
        status=status,
        status_keeps=_STATUS_KEEPS.get(storage, ()),
        generation=storage in _GENERATION,
        create_on_update=storage in _CREATE_ON_UPDATE,
        unconditional_update=storage not in _NEEDS_VERSION,
        return_deleted=storage in _RETURN_DELETED,
        orphan_by_default=storage in _ORPHAN_BY_DEFAULT,
        name=_NAMES.get(storage, dns_subdomain),
        selectable=_SELECTABLE.get(storage, ()),
    )
