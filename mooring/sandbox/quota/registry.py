"""Which kinds use up more than their number."""

from __future__ import annotations

from typing import Any, Final

from mooring.sandbox.quota.claim_usage import Claims
from mooring.sandbox.quota.device_usage import Neighbours, ResourceClaims
from mooring.sandbox.quota.pod_usage import Pods
from mooring.sandbox.quota.quota_kind import Objects, QuotaKind
from mooring.sandbox.quota.service_usage import Services

PODS: Final = Pods("pods")
CLAIMS: Final = Claims("persistentvolumeclaims")
SERVICES: Final = Services("services")
RESOURCE_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_SPECIAL: Final[dict[str, QuotaKind[Any]]] = {kind.name: kind for kind in (PODS, CLAIMS, SERVICES)}


def quota_kind(name: str, neighbours: Neighbours) -> QuotaKind[Any]:
    """What counts about a kind: "pods", "deployments.apps"."""
    if name == RESOURCE_CLAIMS:
        return ResourceClaims(name, neighbours)
    return _SPECIAL.get(name) or Objects(name)
