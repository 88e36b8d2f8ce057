"""EndpointSlices: which pods are behind a Service."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject

SERVICE_NAME: Final = "kubernetes.io/service-name"


class EndpointSlice(KubeObject):
    address_type: str = ""
    endpoints: list[dict[str, Any]] | None = None
    ports: list[dict[str, Any]] | None = None


SLICES: Final = ApiResource("discovery.k8s.io", "v1", "endpointslices", True, EndpointSlice)
