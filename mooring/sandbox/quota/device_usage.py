"""What resource claims use up: devices, by class, at worst."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mooring.api.devices import ALL, EXACT_COUNT, MAX_RESULTS, DeviceRequest, ResourceClaim
from mooring.api.devices import DeviceSubRequest as Alternative
from mooring.api.devices import ExactDeviceRequest as Exact
from mooring.sandbox.quota.amounts import ONE
from mooring.sandbox.quota.quota_kind import QuotaKind

BY_CLASS = ".deviceclass.resource.k8s.io/devices"


class ResourceClaims(QuotaKind[ResourceClaim]):
    """The spec of a claim never changes, so nothing but its creation counts."""

    model = ResourceClaim

    def uses(self, resource: str) -> bool:
        return resource == self.count or resource.endswith(BY_CLASS)

    def usage(self, obj: ResourceClaim, now: float) -> dict[str, str]:
        devices: Counter[str] = Counter()
        for request in obj.spec.devices.requests:
            devices.update(dict(_most(request)))
        return {self.count: ONE, **{f"{name}{BY_CLASS}": str(count) for name, count in devices.items()}}


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
