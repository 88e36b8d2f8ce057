"""ServiceCIDRs: ranges of addresses are ready at once, and stay until no IPAddress is in them."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject, Value
from mooring.api.times import format_time
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType

FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
_READY: Final = ("True", "", "Kubernetes Service CIDR is ready")
_IN_USE: Final = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)

Tree = dict[str, Any]
Verdict = tuple[str, str, str]
"""Status, reason and message of a condition."""


class RangeSpec(Value, frozen=True):
    cidrs: list[str] = []


class RangeStatus(Value, frozen=True):
    conditions: list[Tree] = []


class ServiceCIDR(KubeObject):
    spec: RangeSpec = RangeSpec()
    status: RangeStatus = RangeStatus()

    @property
    def readiness(self) -> str:
        """The status of the condition Ready."""
        return next((one["status"] for one in self.status.conditions if one.get("type") == "Ready"), "")

    def contains(self, address: str) -> bool:
        networks = map(ipaddress.ip_network, self.spec.cidrs)
        return any(ipaddress.ip_address(address) in network for network in networks)


class IPAddress(KubeObject):
    """The name is the address."""


RANGES = ApiResource("networking.k8s.io", "v1", "servicecidrs", False, ServiceCIDR)
ADDRESSES = ApiResource("networking.k8s.io", "v1", "ipaddresses", False, IPAddress)


class ServiceCIDRs(Controller):
    name = "service-cidr-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._addresses = self.cache.follow(ADDRESSES)
        self._ranges = self.cache.follow(RANGES)
        self._ranges.subscribe(self._range_changed)
        self._addresses.subscribe(self._address_changed)

    def _range_changed(self, old: ServiceCIDR | None, new: ServiceCIDR | None) -> None:
        if new is not None:
            self.enqueue(new.name)

    def _address_changed(self, old: IPAddress | None, new: IPAddress | None) -> None:
        if new is None:  # one range less may be in use
            for one in self._ranges:
                if one.metadata.deletion_timestamp is not None:
                    self.enqueue(one.name)

    async def sync(self, key: str) -> None:
        one = self._ranges.get(key)
        if one is None:
            return
        finalizers = one.metadata.finalizers
        if one.metadata.deletion_timestamp is None:
            if FINALIZER not in finalizers:
                await self._set_finalizers(one, [*finalizers, FINALIZER])
            await self._report(one, _READY)
        elif FINALIZER in finalizers and self._is_used(one):
            await self._report(one, _IN_USE)
        elif FINALIZER in finalizers:
            await self._set_finalizers(one, [name for name in finalizers if name != FINALIZER])

    def _is_used(self, one: ServiceCIDR) -> bool:
        """Whether there is an address that no other range contains."""
        others = [
            other
            for other in self._ranges
            if other.name != one.name and other.metadata.deletion_timestamp is None
        ]
        return any(
            one.contains(address.name) and not any(other.contains(address.name) for other in others)
            for address in self._addresses
        )

    async def _set_finalizers(self, one: ServiceCIDR, finalizers: list[str]) -> None:
        patch = {"metadata": {"uid": one.uid, "finalizers": finalizers}}
        self._ranges.wrote(await self.cluster.patch(RANGES, one.name, patch, kind=PatchType.MERGE))

    async def _report(self, one: ServiceCIDR, verdict: Verdict) -> None:
        if one.readiness == verdict[0]:
            return
        condition = {
            "type": "Ready",
            **dict(zip(("status", "reason", "message"), verdict, strict=True)),
            "lastTransitionTime": format_time(self.context.clock()),
        }
        patch = {"metadata": {"uid": one.uid}, "status": {"conditions": [condition]}}
        written = await self.cluster.patch(
            RANGES, one.name, patch, subresource="status", kind=PatchType.MERGE
        )
        self._ranges.wrote(written)
