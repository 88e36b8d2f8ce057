"""The claims of a pod in one scheduling cycle."""

from __future__ import annotations

from mooring.api.devices import Allocation, ResourceClaim
from mooring.api.objects import ContainerExtendedResourceRequest
from mooring.framework.cycle_state import StateKey
from mooring.framework.nodes import BoolArray, IntArray
from mooring.plugins.dynamic_resources.search import PlannedClaim
from mooring.plugins.dynamic_resources.verdicts import DeviceVerdicts


class Offer:
    """How the claims of a pod are allocated on the nodes that offer the same extended resources themselves.
    `planned` is None where there is nothing to allocate."""

    def __init__(
        self, planned: list[PlannedClaim] | None, mappings: list[ContainerExtendedResourceRequest]
    ) -> None:
        self.planned = planned
        self.mappings = mappings
        self.verdicts: DeviceVerdicts | None = None


class PodClaims:
    """The claims of a pod in one cycle: its own, then perhaps one for extended resources. Shared by
    preemption's what-if questions, which change nothing about devices."""

    def __init__(self, claims: list[ResourceClaim], special: ResourceClaim | None) -> None:
        self.claims = claims if special is None else [*claims, special]
        self.own = len(claims)
        self.special_uid = "" if special is None else special.uid
        self.allocations: dict[int, Allocation] = {}  # by claim, from reserve on
        self.offers: list[Offer] = []
        self.offer_of: IntArray | None = None  # by row; None: the only one
        self.unfit: BoolArray | None = None  # by row: does not have an extended resource
        self.unavailable: list[tuple[int, BoolArray]] = []  # claim, and the rows where it cannot be used

    @property
    def special(self) -> ResourceClaim | None:
        return self.claims[self.own] if self.own < len(self.claims) else None

    def unallocated(self) -> list[int]:
        return [i for i, claim in enumerate(self.claims) if claim.allocation is None]

    def offer(self, row: int) -> Offer:
        return self.offers[0 if self.offer_of is None else self.offer_of.item(row)]


CLAIMS = StateKey[PodClaims]("DynamicResources")
NO_CLAIMS = PodClaims([], None)
