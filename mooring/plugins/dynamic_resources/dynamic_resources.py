"""DynamicResources: a pod goes where devices for its claims are, and has them before it is bound."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from mooring.api.devices import FINALIZER, MAX_SUBREQUESTS, Allocation, ResourceClaim
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.handle import Client
from mooring.framework.nodes import IntArray, NodeInfo, Nodes, Verdicts
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, error, skip, unresolvable, unschedulable
from mooring.plugins.args import DynamicResourcesArgs
from mooring.plugins.arithmetic import default_normalize
from mooring.plugins.dynamic_resources import binding
from mooring.plugins.dynamic_resources.claim_binder import ClaimBinder
from mooring.plugins.dynamic_resources.claim_filter import NOT_AVAILABLE, ClaimFilter
from mooring.plugins.dynamic_resources.claims import ClaimProblem, claims_of
from mooring.plugins.dynamic_resources.extended_resources import (
    IN_MEMORY_NAME,
    extended_requests,
)
from mooring.plugins.dynamic_resources.manager import DeviceManager
from mooring.plugins.dynamic_resources.offers import make_offers, request_problem, special_claim
from mooring.plugins.dynamic_resources.pod_claims import CLAIMS, NO_CLAIMS, PodClaims
from mooring.plugins.dynamic_resources.results import allocations
from mooring.plugins.dynamic_resources.search import AllocationError, PlannedClaim, Solution
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import engine_nodes
from mooring.runtime.engine_state import engine_state

NOT_FOUND = "not found"
NOTHING_TO_DEALLOCATE = "no new claims to deallocate"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
STILL_UNSCHEDULABLE = "still not schedulable"


class DynamicResources(Plugin[DynamicResourcesArgs]):
    """Allocates devices for resource claims, as kube-scheduler's plugin of that name."""

    name = "DynamicResources"
    cache_key = CacheKey.NONE

    handle: EngineHandle

    def __init__(self, args: DynamicResourcesArgs, handle: EngineHandle) -> None:
        super().__init__(args, handle)
        self._manager = DeviceManager.of(handle)
        self._filter = ClaimFilter(self._manager, args, handle)
        self._binder = ClaimBinder(self._manager, args, handle)
        self._zeros: IntArray = np.zeros(0, np.int64)

    # ---- queue

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not pod.spec.resource_claims:
            return None
        self._manager.refresh()
        try:
            for _ in claims_of(pod, self._manager.tracker):
                pass
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        return None

    def events_to_register(self) -> Iterable[EventHint]:
        changed = Action.ADD | Action.UPDATE
        yield requeue_on(
            Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        )
        yield requeue_on(Resource.RESOURCE_CLAIM, changed, self._after_claim_change)
        yield requeue_on(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._after_pod_change)
        yield requeue_on(Resource.DEVICE_CLASS, changed)
        yield requeue_on(Resource.RESOURCE_SLICE, changed)

    def _after_claim_change(self, pod: PodInfo, old: ResourceClaim | None, new: ResourceClaim) -> Hint:
        self._manager.refresh()
        try:
            uids = {claim.uid for claim in claims_of(pod, self._manager.tracker)}
        except ClaimProblem:
            return Hint.SKIP
        if old is not None and old.allocation is not None and new.allocation is None:
            return Hint.QUEUE  # its devices may be what this pod waits for
        used = new.uid in uids
        return Hint.QUEUE if used and (old is None or old.status != new.status) else Hint.SKIP

    def _after_pod_change(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        if pod.uid != new.uid:
            return Hint.SKIP
        return Hint.SKIP if self.pre_enqueue(new) is not None else Hint.QUEUE

    # ---- which nodes

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        extended = extended_requests(pod) if self._manager.features.extended_resource else {}
        if not pod.spec.resource_claims and not extended:
            return skip(shape=True)
        state.write(CLAIMS, NO_CLAIMS)
        self._manager.refresh()
        tracker = self._manager.tracker
        try:
            own = list(claims_of(pod, tracker))
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        claims = PodClaims(own, special_claim(self._manager, pod, extended))
        if not claims.claims:
            return skip()
        for i in claims.unallocated():
            claim = claims.claims[i]
            if tracker.is_in_flight(claim.uid):
                return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
            rejection = None if i >= claims.own else request_problem(self._manager, claim)
            if rejection is not None:
                return rejection
        make_offers(self._manager, pod, claims, extended, engine_nodes(nodes).whole)
        state.write(CLAIMS, claims)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        claims = state.get(CLAIMS)
        if claims is None or not claims.claims:
            return None
        view = engine_nodes(nodes)
        verdicts = self._filter.verdicts(claims, view.whole)
        if verdicts is None or view.whole is view:
            return verdicts
        return Verdicts(verdicts.codes[view.rows], verdicts.statuses)

    # ---- no node

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> Status:
        claims = state.get(CLAIMS)
        if claims is None:
            if self.name not in engine_state(state).skip_filter:
                return error(NOT_FOUND)  # a PreFilter plugin before this one ended the cycle
            return unschedulable(NOTHING_TO_DEALLOCATE)
        if not claims.claims:
            return unschedulable(NOTHING_TO_DEALLOCATE)
        for i in self.deallocation_candidates(claims, pod, statuses):
            self._write(pod, partial(binding.deallocate_claim, claim=claims.claims[i]))
            return unschedulable(DEALLOCATED)
        special = claims.special
        if special is not None and special.name != IN_MEMORY_NAME:
            self._write(pod, partial(binding.delete_claim, claim=special))
            return unschedulable(DELETED)
        return unschedulable(STILL_UNSCHEDULABLE)

    def deallocation_candidates(
        self, claims: PodClaims, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> Iterable[int]:
        """The claims that keep the pod from some node and that no other pod uses."""
        nodes = self.handle.snapshot.nodes
        for i, rows in claims.unavailable:
            users = claims.claims[i].status.reserved_for
            if i >= claims.own or any(user.uid != pod.uid for user in users) or len(users) > 1:
                continue
            if any(self._is_refusal(statuses.get(nodes[row].name)) for row in np.flatnonzero(rows).tolist()):
                yield i

    def _is_refusal(self, status: Status | None) -> bool:
        """Whether it was for an unavailable claim that this plugin refused a node."""
        return status is not None and status.plugin == self.name and status.reasons == (NOT_AVAILABLE,)

    def _write(self, pod: PodInfo, work: Callable[[Client], Any]) -> None:
        """Have something written after the cycle; a pod whose write fails tries again."""

        async def attempt(client: Client) -> None:
            try:
                await work(client)
            except Exception as failure:
                self.handle.logger.warning("pod %s: writing a resource claim: %s", pod.key, failure)
                self.handle.activate([pod])

        self.handle.write(attempt)

    # ---- scores

    def scores_shape(self, pod: PodInfo) -> bool:
        """Only claims with alternatives are scored; the claim for extended resources has none."""
        return bool(pod.spec.resource_claims)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        claims = state.get(CLAIMS)
        prioritized = self._manager.features.prioritized_list
        if claims is None or not prioritized or not any(_has_choice(claim) for claim in claims.claims):
            if len(self._zeros) != len(nodes):
                self._zeros = np.zeros(len(nodes), np.int64)
            return self._zeros
        rows = engine_nodes(nodes).rows.tolist()
        return np.array([self._score(claims, row, nodes[i]) for i, row in enumerate(rows)], np.int64)

    def _score(self, claims: PodClaims, row: int, node: NodeInfo) -> int:
        """The earlier the alternatives that are used, the better."""
        solution = self._solution(claims, row, node)
        if solution is None:
            return 0
        devices = iter(solution.devices)
        score = 0
        for claim in claims.claims:
            if claim.allocation is None:
                used = {chosen.alternative.result_name for chosen in next(devices)}
            else:
                used = {result.request for result in claim.allocation.devices.results}
            for request in claim.spec.devices.requests:
                for i, subrequest in enumerate(request.first_available):
                    if f"{request.name}/{subrequest.name}" in used:
                        score += MAX_SUBREQUESTS - i
        return score

    def _solution(self, claims: PodClaims, row: int, node: NodeInfo) -> Solution | None:
        offer = claims.offer(row)
        if offer.planned is None or offer.verdicts is None:
            return None
        return offer.verdicts.solution(row, node, offer.planned)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        return default_normalize(scores)

    # ---- the chosen node

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        claims = state.get(CLAIMS)
        if claims is None or not claims.claims or not claims.unallocated():
            return None
        nodes = self.handle.snapshot.nodes
        row = nodes.index(node_name)
        if row is None:
            return error(f'nodeinfo not found for node name "{node_name}"')
        offer = claims.offer(row)
        if offer.planned is None:
            return None  # the node serves the extended resources itself
        solution = self._solution(claims, row, nodes[row])
        if solution is None:
            return error("claim allocation not found for node")
        try:
            allocations = self._allocations(offer.planned, solution, node_name)
        except AllocationError as problem:
            return error(str(problem))
        for i, planned, allocation in zip(claims.unallocated(), offer.planned, allocations, strict=True):
            claims.allocations[i] = allocation
            self._manager.tracker.allocate(_allocated(planned.claim, allocation))
        return None

    def _allocations(
        self, planned: Sequence[PlannedClaim], solution: Solution, node_name: str
    ) -> list[Allocation]:
        return allocations(planned, solution, node_name, self._manager.device_class, self._new_share_id)

    def _new_share_id(self) -> str:
        digits = "".join(f"{self.handle.random_below(1 << 16):04x}" for _ in range(8))
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        claims = state.get(CLAIMS)
        if claims is None:
            return
        tracker = self._manager.tracker
        for claim in claims.claims[: claims.own]:
            if tracker.settle(claim.uid):
                tracker.restore(claim)
            if claim.allocation is not None and claim.is_reserved_for(pod.uid):
                self._write(pod, partial(self._release, claim, pod.uid))
        special = claims.special
        if special is None:
            return
        if tracker.settle(claims.special_uid):
            tracker.restore(special)
        if special.name != IN_MEMORY_NAME:
            self._write(pod, partial(binding.delete_claim, claim=special))

    # ---- writing

    async def _release(self, claim: ResourceClaim, uid: str, client: Client) -> None:
        """Take a reservation back. Until the watch has shown it, another attempt would take the claim for
        reserved, and bind the pod without a reservation."""
        self._manager.tracker.assume(await binding.release_claim(client, claim, uid))

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Awaitable[Status | None] | None:
        claims = state.get(CLAIMS)
        if claims is None or not claims.claims or self.handle.client is None:
            return None
        return self._binder.bind(claims, self.handle.client, pod, node_name)


def _has_choice(claim: ResourceClaim) -> bool:
    return any(request.first_available for request in claim.spec.devices.requests)


def _allocated(claim: ResourceClaim, allocation: Allocation) -> ResourceClaim:
    """The claim as it will be once it is written."""
    finalizers = claim.metadata.finalizers
    if FINALIZER not in finalizers:
        finalizers = [*finalizers, FINALIZER]
    metadata = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    return msgspec.structs.replace(claim, metadata=metadata, status=status)
