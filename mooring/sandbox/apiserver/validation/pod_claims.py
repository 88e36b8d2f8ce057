"""What a pod's status says about its resource claims."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.sandbox.apiserver.errors import duplicate, invalid_value, required
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.fields import Causes, required_text, text
from mooring.sandbox.apiserver.validation.names import dns_label, dns_subdomain


def claim_statuses(statuses: Sequence[Tree], spec: Tree) -> Causes:
    entries = {entry.get("name") for entry in spec.get("resourceClaims") or ()}
    seen = set()
    for index, status in enumerate(statuses):
        at, name = f"status.resourceClaimStatuses[{index}]", status.get("name", "")
        if name not in entries:
            yield invalid_value(
                f"{at}.name", name, "must match the name of an entry in `spec.resourceClaims`"
            )
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        if status.get("resourceClaimName") is not None:
            yield from text(f"{at}.resourceClaimName", status["resourceClaimName"], dns_subdomain)


def extended_claim(status: Tree, spec: Tree) -> Causes:
    """Validate the claim for extended resources: which request serves which container."""
    at, mappings = "status.extendedResourceClaimStatus", status.get("requestMappings") or ()
    if not mappings:
        yield required(f"{at}.requestMappings", "at least one request mapping is required")
    requests = {
        one.get("name"): dig(one, "resources", "requests") or {}
        for one in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    }
    seen = set()
    for index, mapping in enumerate(mappings):
        names = [mapping.get(name, "") for name in ("containerName", "resourceName", "requestName")]
        container, resource, request = names
        where = f"{at}.requestMappings[{index}]"
        if container not in requests:
            why = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            yield invalid_value(f"{where}.containerName", container, why)
        elif resource not in requests[container]:
            entry = "spec.initContainers.resources.requests or spec.containers.resources.requests"
            why = f"must match the extended resource name of an entry in {entry}"
            yield invalid_value(f"{where}.resourceName", resource, why)
        yield from text(f"{at}.requestName", request, dns_label)
        if tuple(names) in seen:
            for field, name in zip(("containerName", "resourceName", "requestName"), names, strict=True):
                yield duplicate(f"{where}.{field}", name)
        seen.add(tuple(names))
    yield from required_text(f"{at}.resourceClaimName", status.get("resourceClaimName", ""), dns_subdomain)
