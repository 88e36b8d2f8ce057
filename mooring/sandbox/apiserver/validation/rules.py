"""Which kind has which rules, in addition to those for names and metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mooring.sandbox.apiserver.errors import Cause
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation import (
    admission_policies,
    admission_webhooks,
    api_services,
    autoscaling,
    certificate_requests,
    claim_status,
    claims,
    cluster,
    configuration,
    device_claims,
    device_taint_rules,
    endpoints,
    events,
    groups,
    ingresses,
    jobs,
    network_policies,
    pod_rules,
    quotas,
    resource_slices,
    roles,
    runtime_classes,
    service_ranges,
    services,
    workloads,
)

_ADMISSION = "admissionregistration.k8s.io"
_NETWORKING = "networking.k8s.io"
_RBAC = "rbac.authorization.k8s.io"


def _anything(obj: Tree, old: Tree) -> Iterable[Cause]:
    return ()


class Rules(NamedTuple):
    """The rules of a kind: for new objects, for updates, and for updates of the status."""

    create: Callable[[Tree], Iterable[Cause]]
    update: Callable[[Tree, Tree], Iterable[Cause]]
    status: Callable[[Tree, Tree], Iterable[Cause]] = _anything


def _always(rule: Callable[[Tree], Iterable[Cause]]) -> Rules:
    """Rules that do not depend on the old object."""
    return Rules(rule, lambda obj, old: rule(obj))


RULES: dict[str, Rules] = {
    "apiservices.apiregistration.k8s.io": _always(api_services.api_service)._replace(
        status=api_services.api_service_status
    ),
    "certificatesigningrequests.certificates.k8s.io": Rules(
        certificate_requests.certificate_request,
        _anything,
        certificate_requests.certificate_request_status,
    ),
    f"clusterrolebindings.{_RBAC}": Rules(roles.cluster_role_binding, roles.cluster_role_binding_update),
    f"clusterroles.{_RBAC}": _always(roles.cluster_role),
    "configmaps": Rules(configuration.config_map, configuration.config_map_update),
    "cronjobs.batch": Rules(jobs.cron_job, jobs.cron_job_update),
    "csinodes.storage.k8s.io": Rules(cluster.csi_node, cluster.csi_node_update),
    "daemonsets.apps": Rules(workloads.daemon_set, workloads.daemon_set_update, workloads.daemon_set_status),
    "deployments.apps": Rules(workloads.deployment, workloads.deployment_update, workloads.deployment_status),
    "deviceclasses.resource.k8s.io": _always(device_claims.device_class),
    "devicetaintrules.resource.k8s.io": _always(device_taint_rules.device_taint_rule)._replace(
        status=device_taint_rules.device_taint_rule_status
    ),
    "endpoints": _always(endpoints.endpoints),
    "endpointslices.discovery.k8s.io": Rules(endpoints.endpoint_slice, endpoints.endpoint_slice_update),
    "events": Rules(events.event, events.event_update),
    "horizontalpodautoscalers.autoscaling": _always(autoscaling.horizontal_pod_autoscaler),
    f"ingressclasses.{_NETWORKING}": Rules(ingresses.ingress_class, ingresses.ingress_class_update),
    f"ingresses.{_NETWORKING}": Rules(ingresses.ingress, ingresses.ingress_update, ingresses.ingress_status),
    f"ipaddresses.{_NETWORKING}": Rules(service_ranges.address, service_ranges.address_update),
    "jobs.batch": Rules(jobs.job, jobs.job_update),
    "leases.coordination.k8s.io": _always(cluster.lease),
    "limitranges": _always(quotas.limit_range),
    "namespaces": _always(cluster.namespace)._replace(status=cluster.namespace_status),
    f"mutatingadmissionpolicies.{_ADMISSION}": _always(admission_policies.mutating_policy),
    f"mutatingadmissionpolicybindings.{_ADMISSION}": _always(admission_policies.mutating_binding),
    f"mutatingwebhookconfigurations.{_ADMISSION}": _always(admission_webhooks.webhook_configuration),
    f"networkpolicies.{_NETWORKING}": _always(network_policies.network_policy),
    "nodes": Rules(cluster.node, cluster.node_update, cluster.node_update),
    "persistentvolumeclaims": Rules(claims.claim, claims.claim_update, claims.claim_status),
    "persistentvolumes": Rules(claims.volume, claims.volume_update),
    "poddisruptionbudgets.policy": _always(cluster.disruption_budget)._replace(
        status=cluster.disruption_budget_status
    ),
    "pods": Rules(pod_rules.pod_create, pod_rules.pod_update, pod_rules.pod_status),
    "podgroups.scheduling.k8s.io": Rules(groups.pod_group, groups.pod_group_update, groups.pod_group_status),
    "podtemplates": _always(workloads.pod_template_object),
    "priorityclasses.scheduling.k8s.io": Rules(cluster.priority_class, cluster.priority_class_update),
    "replicasets.apps": Rules(
        workloads.replica_set, workloads.replica_set_update, workloads.replica_set_status
    ),
    "replicationcontrollers": _always(workloads.replication_controller)._replace(
        status=workloads.replica_set_status
    ),
    "resourceclaims.resource.k8s.io": Rules(
        device_claims.resource_claim, device_claims.resource_claim_update, claim_status.claim_status
    ),
    "resourceclaimtemplates.resource.k8s.io": Rules(
        device_claims.resource_claim_template, device_claims.resource_claim_template_update
    ),
    "resourceslices.resource.k8s.io": Rules(
        resource_slices.resource_slice, resource_slices.resource_slice_update
    ),
    "resourcequotas": Rules(
        quotas.resource_quota, quotas.resource_quota_update, quotas.resource_quota_status
    ),
    f"rolebindings.{_RBAC}": Rules(roles.role_binding, roles.role_binding_update),
    f"roles.{_RBAC}": _always(roles.role),
    "runtimeclasses.node.k8s.io": Rules(runtime_classes.runtime_class, runtime_classes.runtime_class_update),
    "secrets": Rules(configuration.secret, configuration.secret_update),
    f"servicecidrs.{_NETWORKING}": Rules(service_ranges.service_cidr, service_ranges.service_cidr_update),
    "services": Rules(services.service, services.service_update, services.service_status),
    "statefulsets.apps": Rules(
        workloads.stateful_set, workloads.stateful_set_update, workloads.stateful_set_status
    ),
    "storageclasses.storage.k8s.io": Rules(cluster.storage_class, cluster.storage_class_update),
    f"validatingadmissionpolicies.{_ADMISSION}": _always(admission_policies.validating_policy),
    f"validatingadmissionpolicybindings.{_ADMISSION}": _always(admission_policies.validating_binding),
    f"validatingwebhookconfigurations.{_ADMISSION}": _always(admission_webhooks.webhook_configuration),
    "workloads.scheduling.k8s.io": Rules(groups.workload, groups.workload_update),
}
"""By the table of a kind."""
