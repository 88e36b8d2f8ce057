"""What claims ask for, in a form that the search can use. Claims with equal specs share a plan."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mooring.api import quantity
from mooring.api.devices import (
    ALL,
    CapacityRequirements,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)

_encode = msgspec.msgpack.Encoder().encode


class Alternative:
    """A request, or one of the subrequests that it leaves a choice of."""

    __slots__ = (
        "admin",
        "all",
        "capacity",
        "class_name",
        "count",
        "expressions",
        "has_capacity",
        "has_unknown_selector",
        "mode",
        "name",
        "parent",
        "result_name",
        "tolerations",
    )

    def __init__(self, name: str, parent: str, request: ExactDeviceRequest | DeviceSubRequest) -> None:
        self.name = name
        self.parent = parent  # the request whose subrequest this is, or ""
        self.result_name = f"{parent}/{name}" if parent else name
        self.class_name = request.device_class_name
        self.mode = request.allocation_mode
        self.all = request.allocation_mode == ALL
        self.count = request.count
        self.admin = isinstance(request, ExactDeviceRequest) and bool(request.admin_access)
        self.tolerations: list[DeviceToleration] = request.tolerations
        self.expressions = expressions(request.selectors)
        self.has_unknown_selector = any(selector.cel is None for selector in request.selectors)
        self.capacity = _amounts(request.capacity)
        self.has_capacity = request.capacity is not None

    @property
    def request(self) -> str:
        """The name of the request in the claim."""
        return self.parent or self.name


class Request:
    """A request with its alternatives: one, unless it has subrequests."""

    __slots__ = ("alternatives", "has_subrequests", "name")

    def __init__(self, name: str, alternatives: list[Alternative], has_subrequests: bool) -> None:
        self.name = name
        self.alternatives = alternatives
        self.has_subrequests = has_subrequests


class ClaimPlan:
    """A claim's spec, compiled."""

    __slots__ = ("requests", "simple", "spec")

    def __init__(self, spec: ResourceClaimSpec) -> None:
        self.spec = spec
        self.requests = list(_requests(spec))
        # One request for some devices, of which nothing but selectors matters.
        only = self.requests[0].alternatives[0] if len(self.requests) == 1 else None
        self.simple = (
            only is not None
            and not self.requests[0].has_subrequests
            and not (only.all or only.admin or only.has_capacity or spec.devices.constraints)
            and not only.has_unknown_selector
        )


def _requests(spec: ResourceClaimSpec) -> Iterator[Request]:
    for request in spec.devices.requests:
        if request.exactly is not None:
            yield Request(request.name, [Alternative(request.name, "", request.exactly)], False)
        else:
            subrequests = [Alternative(each.name, request.name, each) for each in request.first_available]
            yield Request(request.name, subrequests, True)


def expressions(selectors: list[DeviceSelector]) -> tuple[str, ...]:
    return tuple(selector.cel.expression for selector in selectors if selector.cel is not None)


def _amounts(capacity: CapacityRequirements | None) -> dict[str, tuple[int, str]]:
    """The requested amounts by name: in nano, and as written."""
    if capacity is None:
        return {}
    return {name: (quantity.parse(raw), str(raw)) for name, raw in capacity.requests.items()}


class Plans:
    """The plans in use, by spec."""

    LIMIT = 4096

    def __init__(self) -> None:
        self._plans: dict[bytes, ClaimPlan] = {}

    def of(self, claim: ResourceClaim) -> ClaimPlan:
        key = _encode(claim.spec)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= self.LIMIT:
                self._plans.clear()
            plan = self._plans[key] = ClaimPlan(claim.spec)
        return plan
