"""What is to be allocated for a pod: its claims, and devices for extended resources where a node has none."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from mooring.api.devices import ResourceClaim
from mooring.framework.nodes import Nodes
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, error, unresolvable
from mooring.plugins.dynamic_resources.extended_resources import (
    NodeRequests,
    in_memory_claim,
    is_special,
    node_requests,
)
from mooring.plugins.dynamic_resources.manager import DeviceManager
from mooring.plugins.dynamic_resources.pod_claims import Offer, PodClaims
from mooring.plugins.dynamic_resources.search import PlannedClaim


def special_claim(manager: DeviceManager, pod: PodInfo, extended: Mapping[str, int]) -> ResourceClaim | None:
    """The claim for extended resources that a class stands behind: an earlier attempt's, or a new one."""
    classes = manager.resource_classes()
    if not any(classes.get(resource) is not None for resource in extended):
        return None
    earlier = (claim for claim in manager.tracker.all() if is_special(claim, pod))
    return next(earlier, None) or in_memory_claim(pod)


def request_problem(manager: DeviceManager, claim: ResourceClaim) -> Status | None:
    """Return why a claim cannot be allocated on any node."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            names = [(request.name, request.exactly.device_class_name)]
        elif request.first_available and not manager.features.prioritized_list:
            problem = "has subrequests, but the DRAPrioritizedList feature is disabled"
            return unresolvable(f"resource claim {claim.key}, request {request.name}: {problem}")
        elif request.first_available:
            names = [(f"{request.name}/{s.name}", s.device_class_name) for s in request.first_available]
        else:
            return unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
        for name, class_name in names:
            if not class_name:
                return error(f"request {name}: unsupported request type")
            if manager.device_class(class_name) is None:
                return unresolvable(f"request {name}: device class {class_name} does not exist")
    return None


def make_offers(
    manager: DeviceManager, pod: PodInfo, claims: PodClaims, extended: Mapping[str, int], nodes: Nodes
) -> None:
    """Compute what is to be allocated; with extended resources that may differ from node to node."""
    own = [claims.claims[i] for i in claims.unallocated() if i < claims.own]
    planned = [PlannedClaim(claim, manager.plans.of(claim)) for claim in own]
    special = claims.special
    if special is None:
        claims.offers = [Offer(planned or None, [])]
        return
    offers: dict[frozenset[str], int] = {}
    claims.offer_of = np.zeros(len(nodes), np.int64)
    claims.unfit = np.zeros(len(nodes), np.bool_)
    classes = manager.resource_classes()
    for row, node in enumerate(nodes):
        listed = node.node.status.allocatable
        through_claim = frozenset(
            name for name in extended if classes.get(name) is not None and not node.allocatable[name]
        )
        if any(name not in through_claim and name not in listed for name in extended):
            claims.unfit[row] = True
            continue
        if through_claim not in offers:
            offers[through_claim] = len(claims.offers)
            if through_claim or claims.own:
                requests = node_requests(pod, through_claim, classes)
                claims.offers.append(_special_offer(manager, special, requests, planned))
            else:
                claims.offers.append(Offer(None, []))
        claims.offer_of[row] = offers[through_claim]


def _special_offer(
    manager: DeviceManager, special: ResourceClaim, requests: NodeRequests, planned: list[PlannedClaim]
) -> Offer:
    claim = msgspec.structs.replace(special, spec=requests.spec())
    return Offer([*planned, PlannedClaim(claim, manager.plans.of(claim))], requests.mappings)
