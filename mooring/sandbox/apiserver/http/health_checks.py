"""The health checks of kube-apiserver, by the names that clients ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.serving.health import PING, Check

_START: Final = (
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
)
"""What a server has to complete at its start: an embedded one serves nothing before that."""


def health_checks(store_problem: Callable[[], str]) -> dict[str, list[Check]]:
    """Return the checks of each path in kube-apiserver's order. Only the store can fail."""
    log, start = _passing("log"), [_passing(name) for name in _START]
    etcd = Check("etcd", store_problem)
    alive = [PING, log, _passing("loopback-serving-certificate"), etcd, *start]
    stores = [etcd, Check("etcd-readiness", store_problem)]
    ready = [PING, log, *stores, _passing("informer-sync"), *start, _passing("shutdown")]
    return {"healthz": alive, "livez": alive, "readyz": ready}


def _passing(name: str) -> Check:
    return Check(name, lambda: "")
