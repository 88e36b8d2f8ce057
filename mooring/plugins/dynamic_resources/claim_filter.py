"""On which nodes the claims of a pod can be used: those that have devices for the unallocated ones, and that
the allocated ones can be reached from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mooring.api.devices import ResourceClaim
from mooring.api.objects import NodeSelector
from mooring.framework.nodes import BoolArray, Nodes, Verdicts
from mooring.framework.status import error, unresolvable
from mooring.plugins.args import DynamicResourcesArgs
from mooring.plugins.dynamic_resources import binding
from mooring.plugins.dynamic_resources.manager import DeviceManager
from mooring.plugins.dynamic_resources.pod_claims import PodClaims
from mooring.plugins.dynamic_resources.search import SearchTime
from mooring.plugins.dynamic_resources.verdicts import FAILS, INVALID_POOLS, NO_SOLUTION, PASSES, Codes
from mooring.plugins.matching import match_node_selector
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import EngineNodes

CANNOT_ALLOCATE = "cannot allocate all claims"
POOLS_ARE_INVALID = "invalid resource pools were encountered"
NOT_AVAILABLE = "resourceclaim not available on the node"
CANNOT_FIT = "cannot fit resource"
STALE_CLAIM = "cannot schedule extended resource claim"

_NOT_AVAILABLE, _CANNOT_FIT, _FIRST_ERROR = FAILS + 1, FAILS + 2, FAILS + 3


class ClaimFilter:
    """Filters all nodes for the claims of a pod."""

    def __init__(self, manager: DeviceManager, args: DynamicResourcesArgs, handle: EngineHandle) -> None:
        self._manager = manager
        self._args = args
        self._handle = handle
        self._rejections = {
            code: unresolvable(reason)
            for code, reason in (
                (NO_SOLUTION, CANNOT_ALLOCATE),
                (INVALID_POOLS, POOLS_ARE_INVALID),
                (_NOT_AVAILABLE, NOT_AVAILABLE),
                (_CANNOT_FIT, CANNOT_FIT),
            )
        }

    def verdicts(self, claims: PodClaims, nodes: EngineNodes) -> Verdicts | None:
        special = claims.special
        if special is not None and special.spec.devices.requests:
            # Left over from an earlier attempt: post_filter deletes it, and the pod starts over.
            return Verdicts(np.ones(len(nodes), np.int32), {1: unresolvable(STALE_CLAIM)})
        codes, errors = self._device_codes(claims, nodes)
        only = claims.offers[0].verdicts if len(claims.offers) == 1 else None
        claims.unavailable = list(self._unavailable(claims, nodes))
        if only is not None and not (errors or claims.unavailable or claims.unfit is not None):
            return only.answer(self._rejections)
        if claims.unavailable or claims.unfit is not None:
            codes = codes.copy()
            for _, rows in claims.unavailable:
                codes[rows & (codes == PASSES)] = _NOT_AVAILABLE
            if claims.unfit is not None:
                codes[claims.unfit] = _CANNOT_FIT
        return self._with_errors(codes, errors) if codes.any() else None

    def _with_errors(self, codes: Codes, errors: Mapping[int, str]) -> Verdicts:
        """The answer, with a status for each text of an error."""
        statuses = dict(self._rejections)
        texts: dict[str, int] = {}
        codes = codes.copy()
        for row in sorted(errors):
            if codes.item(row) == FAILS:
                code = texts.setdefault(errors[row], _FIRST_ERROR + len(texts))
                statuses[code] = error(errors[row])
                codes[row] = code
        return Verdicts(codes, statuses)

    def _device_codes(self, claims: PodClaims, nodes: EngineNodes) -> tuple[Codes, Mapping[int, str]]:
        """For each row whether all claims can be allocated there, and what went wrong where that failed."""
        time = self._search_time()
        parts: list[tuple[Codes, Mapping[int, str]]] = []
        for offer in claims.offers:
            if offer.planned is None:
                parts.append((self._manager.all_pass(len(nodes)), {}))
                continue
            offer.verdicts = self._manager.verdicts.of(offer.planned)
            codes = offer.verdicts.refresh(nodes, offer.planned, time)
            parts.append((codes, offer.verdicts.errors))
        if not parts:
            return self._manager.all_pass(len(nodes)), {}
        if len(parts) == 1 or claims.offer_of is None:
            return parts[0]
        codes = np.array([part[0] for part in parts])[claims.offer_of, np.arange(len(nodes))]
        errors = {
            row: text
            for i, part in enumerate(parts)
            for row, text in part[1].items()
            if claims.offer_of.item(row) == i
        }
        return codes, errors

    def _search_time(self) -> SearchTime:
        timeout = self._args.filter_timeout.seconds if self._manager.features.filter_timeout else 0.0
        return SearchTime(timeout, self._handle.now)

    def _unavailable(self, claims: PodClaims, nodes: Nodes) -> Iterable[tuple[int, BoolArray]]:
        """The allocated claims that cannot be used on some nodes, and on which."""
        for i, claim in enumerate(claims.claims):
            allocation = claim.allocation
            if allocation is None:
                continue
            rows = np.zeros(len(nodes), np.bool_)
            if allocation.node_selector is not None:
                rows = ~_rows_matching(nodes, allocation.node_selector)
            if self._manager.features.binding_conditions and not self._may_be_bound(claim):
                rows[:] = True
            if rows.any():
                yield i, rows

    def _may_be_bound(self, claim: ResourceClaim) -> bool:
        try:
            ready = binding.is_ready(claim)
        except binding.BindingFailed:
            return False
        return ready or not binding.is_overdue(claim, self._args.binding_timeout.seconds, self._handle.now())


def _rows_matching(nodes: Nodes, selector: NodeSelector) -> BoolArray:
    """The rows that a selector matches; most name a single node."""
    terms = selector.node_selector_terms
    if len(terms) == 1 and not terms[0].match_expressions and len(terms[0].match_fields) == 1:
        field = terms[0].match_fields[0]
        if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
            rows = np.zeros(len(nodes), np.bool_)
            row = nodes.index(field.values[0])
            if row is not None:
                rows[row] = True
            return rows
    return match_node_selector(nodes, selector)
