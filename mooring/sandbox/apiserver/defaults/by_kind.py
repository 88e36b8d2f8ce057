"""Which kind has which defaults."""

from __future__ import annotations

from collections.abc import Callable

from mooring.sandbox.apiserver.defaults import core, others, pod_defaults, webhooks, workload_defaults
from mooring.sandbox.apiserver.objects import Tree

DEFAULTS: dict[str, Callable[[Tree], None]] = {
    "apiservices.apiregistration.k8s.io": others.default_api_service,
    "clusterrolebindings.rbac.authorization.k8s.io": others.default_role_binding,
    "cronjobs.batch": workload_defaults.default_cron_job,
    "csidrivers.storage.k8s.io": others.default_csi_driver,
    "daemonsets.apps": workload_defaults.default_daemon_set,
    "deployments.apps": workload_defaults.default_deployment,
    "endpoints": core.default_endpoints,
    "endpointslices.discovery.k8s.io": others.default_endpoint_slice,
    "horizontalpodautoscalers.autoscaling": others.default_horizontal_pod_autoscaler,
    "ingressclasses.networking.k8s.io": others.default_ingress_class,
    "jobs.batch": workload_defaults.default_job,
    "leases.coordination.k8s.io": others.default_lease,
    "limitranges": core.default_limit_range,
    "mutatingadmissionpolicies.admissionregistration.k8s.io": webhooks.default_policy,
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": webhooks.default_binding,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": webhooks.default_mutating_webhooks,
    "networkpolicies.networking.k8s.io": others.default_network_policy,
    "nodes": core.default_node,
    "persistentvolumeclaims": core.default_persistent_volume_claim,
    "persistentvolumes": core.default_persistent_volume,
    "pods": pod_defaults.default_pod,
    "podgroups.scheduling.k8s.io": others.default_pod_group,
    "podtemplates": pod_defaults.default_pod_template,
    "priorityclasses.scheduling.k8s.io": others.default_priority_class,
    "replicasets.apps": workload_defaults.default_replica_set,
    "replicationcontrollers": workload_defaults.default_replication_controller,
    "resourceclaims.resource.k8s.io": others.default_resource_claim,
    "resourceclaimtemplates.resource.k8s.io": others.default_resource_claim_template,
    "resourcequotas": core.default_resource_quota,
    "rolebindings.rbac.authorization.k8s.io": others.default_role_binding,
    "secrets": core.default_secret,
    "services": core.default_service,
    "statefulsets.apps": workload_defaults.default_stateful_set,
    "storageclasses.storage.k8s.io": others.default_storage_class,
    "validatingadmissionpolicies.admissionregistration.k8s.io": webhooks.default_policy,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": webhooks.default_binding,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": webhooks.default_webhooks,
}
"""By the table of a kind. Functions change the tree in place; it has passed the sieve, so what Go always
writes is there."""
