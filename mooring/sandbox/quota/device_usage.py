"""What resource claims use up: devices, by class and by the extended resource of the class, at worst."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from mooring.api.devices import (
    ALL,
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    IMPLICIT_PREFIX,
    MAX_RESULTS,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
)
from mooring.api.devices import DeviceSubRequest as Alternative
from mooring.api.devices import ExactDeviceRequest as Exact
from mooring.api.meta import OwnerReference
from mooring.api.objects import Pod
from mooring.api.quantity import NANO, parse
from mooring.sandbox.quota.amounts import ONE
from mooring.sandbox.quota.pod_usage import Pods
from mooring.sandbox.quota.quota_kind import QuotaKind

BY_CLASS = ".deviceclass.resource.k8s.io/devices"
_REQUESTS = "requests."
_PODS = Pods("pods")


class Neighbours(Protocol):
    """Other objects, on which it depends what a claim is charged with."""

    def device_classes(self) -> Iterable[DeviceClass]: ...

    def pod(self, namespace: str, name: str) -> Pod | None: ...

    def resource_claims(self, namespace: str) -> Iterable[ResourceClaim]: ...


class ResourceClaims(QuotaKind[ResourceClaim]):
    """The spec of a claim never changes, so nothing but its creation counts."""

    model = ResourceClaim

    def __init__(self, name: str, neighbours: Neighbours) -> None:
        super().__init__(name)
        self._neighbours = neighbours

    def uses(self, resource: str) -> bool:
        if resource == self.count or resource.endswith(BY_CLASS):
            return True
        extended = resource.removeprefix(_REQUESTS)
        return extended != resource and any(
            extended in (each.spec.extended_resource_name, IMPLICIT_PREFIX + each.name)
            for each in self._neighbours.device_classes()
        )

    def usage(self, obj: ResourceClaim, now: float) -> dict[str, str]:
        devices: Counter[str] = Counter()
        for request in obj.spec.devices.requests:
            devices.update(dict(_most(request)))
        by_class = {f"{name}{BY_CLASS}": str(count) for name, count in devices.items()}
        return {self.count: ONE, **by_class, **self._extended(obj, devices, now)}

    def _extended(self, claim: ResourceClaim, devices: Counter[str], now: float) -> dict[str, str]:
        """The devices as extended resources, without those that the claim's pod is charged with."""
        explicit = {each.name: each.spec.extended_resource_name for each in self._neighbours.device_classes()}
        counts: dict[str, int] = {}
        for name, count in devices.items():
            counts[f"{_REQUESTS}{IMPLICIT_PREFIX}{name}"] = count
            if explicit.get(name):
                counts[f"{_REQUESTS}{explicit[name]}"] = count
        pod = self._served_pod(claim)
        charged = {} if pod is None else _PODS.usage(pod, now)
        left = {name: count - parse(charged.get(name, "0")) // NANO for name, count in counts.items()}
        return {name: str(count) for name, count in left.items() if count > 0}

    def _served_pod(self, claim: ResourceClaim) -> Pod | None:
        """Return the pod for whose extended resources a claim was created; None for a second such claim."""
        owner = _extended_resource_owner(claim)
        pod = None if owner is None else self._neighbours.pod(claim.namespace, owner.name)
        if owner is None or pod is None or pod.uid != owner.uid:
            return None
        status = pod.status.extended_resource_claim_status
        if status is not None:
            return pod if status.resource_claim_name == claim.name else None
        others = (
            other
            for other in self._neighbours.resource_claims(claim.namespace)
            if (of := _extended_resource_owner(other)) is not None and of.uid == pod.uid
        )
        return None if any(_age(other) < _age(claim) for other in others) else pod


def _extended_resource_owner(claim: ResourceClaim) -> OwnerReference | None:
    owner = claim.metadata.controller()
    if owner is None or claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return None
    return owner if (owner.api_version, owner.kind) == ("v1", "Pod") else None


def _age(claim: ResourceClaim) -> tuple[str, str]:
    return claim.metadata.creation_timestamp or "", claim.name


def _most(request: DeviceRequest) -> Iterator[tuple[str, int]]:
    """The most devices of each class that a request can be given."""
    if not request.first_available:
        if request.exactly is not None:
            yield request.exactly.device_class_name, _devices(request.exactly)
        return
    most: dict[str, int] = {}
    for alternative in request.first_available:
        name = alternative.device_class_name
        most[name] = max(most.get(name, 0), _devices(alternative))
    yield from most.items()


def _devices(request: Exact | Alternative) -> int:
    if request.allocation_mode == ALL:
        return MAX_RESULTS
    return request.count if request.allocation_mode == EXACT_COUNT else 0
