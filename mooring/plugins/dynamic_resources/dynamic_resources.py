"""DynamicResources: a pod goes where devices for its claims are, and has them before it is bound."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from mooring.api.devices import FINALIZER, MAX_SUBREQUESTS, Allocation, DeviceClass, ResourceClaim
from mooring.api.objects import ContainerExtendedResourceRequest, NodeSelector
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.handle import Client
from mooring.framework.nodes import BoolArray, IntArray, NodeInfo, Nodes, Verdicts
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, error, skip, unresolvable, unschedulable
from mooring.plugins.args import DynamicResourcesArgs
from mooring.plugins.arithmetic import default_normalize
from mooring.plugins.dynamic_resources import binding
from mooring.plugins.dynamic_resources.claims import ClaimProblem, claims_of
from mooring.plugins.dynamic_resources.extended_resources import (
    IN_MEMORY_NAME,
    NodeRequests,
    extended_requests,
    in_memory_claim,
    is_special,
    node_requests,
)
from mooring.plugins.dynamic_resources.manager import DeviceManager
from mooring.plugins.dynamic_resources.results import allocations
from mooring.plugins.dynamic_resources.search import AllocationError, Solution, Wanted
from mooring.plugins.dynamic_resources.verdicts import (
    FAILS,
    INVALID_POOLS,
    NO_SOLUTION,
    PASSES,
    Codes,
    DeviceVerdicts,
)
from mooring.plugins.matching import match_node_selector
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import EngineNodes, engine_nodes
from mooring.runtime.engine_state import engine_state


class _Offer:
    """How the claims of a pod are allocated on the nodes that offer the same extended resources themselves.
    `wanted` is None where there is nothing to allocate."""

    def __init__(self, wanted: list[Wanted] | None, mappings: list[ContainerExtendedResourceRequest]) -> None:
        self.wanted = wanted
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
        self.offers: list[_Offer] = []
        self.offer_of: IntArray | None = None  # by row; None: the only one
        self.unfit: BoolArray | None = None  # by row: does not have an extended resource
        self.unavailable: list[tuple[int, BoolArray]] = []  # claim, and the rows where it cannot be used

    @property
    def special(self) -> ResourceClaim | None:
        return self.claims[self.own] if self.own < len(self.claims) else None

    def unallocated(self) -> list[int]:
        return [i for i, claim in enumerate(self.claims) if claim.allocation is None]

    def offer(self, row: int) -> _Offer:
        return self.offers[0 if self.offer_of is None else self.offer_of.item(row)]


SPECIAL_CLAIM_TIMEOUT = 120.0  # seconds until the claim for extended resources must have come back
CLAIMS = StateKey[PodClaims]("DynamicResources")
NO_CLAIMS = PodClaims([], None)


class DynamicResources(Plugin[DynamicResourcesArgs]):
    """Allocates devices for resource claims, as kube-scheduler's plugin of that name."""

    name = "DynamicResources"
    cache_key = CacheKey.NONE

    NO_SOLUTION = "cannot allocate all claims"
    INVALID_POOLS = "invalid resource pools were encountered"
    UNAVAILABLE = "resourceclaim not available on the node"
    CANNOT_FIT = "cannot fit resource"
    STALE_CLAIM = "cannot schedule extended resource claim"
    NOT_FOUND = "not found"
    NOTHING_TO_DEALLOCATE = "no new claims to deallocate"
    DEALLOCATED = "deallocation of ResourceClaim completed"
    DELETED = "deletion of ResourceClaim completed"
    STILL_UNSCHEDULABLE = "still not schedulable"

    handle: EngineHandle

    def __init__(self, args: DynamicResourcesArgs, handle: EngineHandle) -> None:
        super().__init__(args, handle)
        self._manager = handle.shared(DeviceManager, lambda: DeviceManager(handle.listers))
        self._refusals = {
            code: unresolvable(reason)
            for code, reason in (
                (NO_SOLUTION, self.NO_SOLUTION),
                (INVALID_POOLS, self.INVALID_POOLS),
                (_UNAVAILABLE, self.UNAVAILABLE),
                (_CANNOT_FIT, self.CANNOT_FIT),
            )
        }
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
        extended = extended_requests(pod)
        if not pod.spec.resource_claims and not extended:
            return skip(shape=True)
        state.write(CLAIMS, NO_CLAIMS)
        self._manager.refresh()
        tracker = self._manager.tracker
        try:
            own = list(claims_of(pod, tracker))
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        claims = PodClaims(own, self._special_claim(pod, extended))
        if not claims.claims:
            return skip()
        for i in claims.unallocated():
            claim = claims.claims[i]
            if tracker.is_in_flight(claim.uid):
                return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
            refusal = None if i >= claims.own else self._request_problem(claim)
            if refusal is not None:
                return refusal
        self._offer(pod, claims, extended, engine_nodes(nodes).whole)
        state.write(CLAIMS, claims)
        return None

    def _special_claim(self, pod: PodInfo, extended: Mapping[str, int]) -> ResourceClaim | None:
        """The claim for extended resources that a class stands behind: an earlier attempt's, or a new one."""
        classes = self._manager.resource_classes()
        if not any(classes.get(resource) is not None for resource in extended):
            return None
        earlier = (claim for claim in self._manager.tracker.all() if is_special(claim, pod))
        return next(earlier, None) or in_memory_claim(pod)

    def _request_problem(self, claim: ResourceClaim) -> Status | None:
        """Return why a claim cannot be allocated on any node."""
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                names = [(request.name, request.exactly.device_class_name)]
            elif request.first_available:
                names = [(f"{request.name}/{s.name}", s.device_class_name) for s in request.first_available]
            else:
                return unresolvable(
                    f"resource claim {claim.key}, request {request.name}: unknown request type"
                )
            for name, class_name in names:
                if not class_name:
                    return error(f"request {name}: unsupported request type")
                if self.handle.listers.get(DeviceClass, class_name) is None:
                    return unresolvable(f"request {name}: device class {class_name} does not exist")
        return None

    def _offer(self, pod: PodInfo, claims: PodClaims, extended: Mapping[str, int], nodes: Nodes) -> None:
        """Work out what is to be allocated; with extended resources that may differ from node to node."""
        plans = self._manager.plans
        own = [claims.claims[i] for i in claims.unallocated() if i < claims.own]
        wanted = [Wanted(claim, plans.of(claim)) for claim in own]
        special = claims.special
        if special is None:
            claims.offers = [_Offer(wanted or None, [])]
            return
        offers: dict[frozenset[str], int] = {}
        claims.offer_of = np.zeros(len(nodes), np.int64)
        claims.unfit = np.zeros(len(nodes), np.bool_)
        classes = self._manager.resource_classes()
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
                requests = node_requests(pod, through_claim, classes)
                claims.offers.append(self._special_offer(claims, special, requests, wanted, through_claim))
            claims.offer_of[row] = offers[through_claim]

    def _special_offer(
        self,
        claims: PodClaims,
        special: ResourceClaim,
        requests: NodeRequests,
        wanted: list[Wanted],
        through_claim: frozenset[str],
    ) -> _Offer:
        if not through_claim and not claims.own:
            return _Offer(None, [])
        claim = msgspec.structs.replace(special, spec=requests.spec())
        return _Offer([*wanted, Wanted(claim, self._manager.plans.of(claim))], requests.mappings)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        claims = state.get(CLAIMS)
        if claims is None or not claims.claims:
            return None
        view = engine_nodes(nodes)
        found = self._verdicts(claims, view.whole)
        if found is None or view.whole is view:
            return found
        return Verdicts(found.codes[view.rows], found.statuses)

    def _verdicts(self, claims: PodClaims, nodes: EngineNodes) -> Verdicts | None:
        special = claims.special
        if special is not None and special.spec.devices.requests:
            # Left over from an earlier attempt: post_filter deletes it, and the pod starts over.
            return Verdicts(np.ones(len(nodes), np.int32), {1: unresolvable(self.STALE_CLAIM)})
        codes, errors = self._device_codes(claims, nodes)
        only = claims.offers[0].verdicts if len(claims.offers) == 1 else None
        claims.unavailable = list(self._unavailable(claims, nodes))
        if only is not None and not (errors or claims.unavailable or claims.unfit is not None):
            return only.answer(self._refusals)
        if claims.unavailable or claims.unfit is not None:
            codes = codes.copy()
            for _, rows in claims.unavailable:
                codes[rows & (codes == PASSES)] = _UNAVAILABLE
            if claims.unfit is not None:
                codes[claims.unfit] = _CANNOT_FIT
        return self._with_errors(codes, errors) if codes.any() else None

    def _with_errors(self, codes: Codes, errors: Mapping[int, str]) -> Verdicts:
        """The answer, with a status for each text of an error."""
        statuses = dict(self._refusals)
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
        parts: list[tuple[Codes, Mapping[int, str]]] = []
        for offer in claims.offers:
            if offer.wanted is None:
                parts.append((self._manager.all_pass(len(nodes)), {}))
                continue
            offer.verdicts = self._manager.verdicts.of(offer.wanted)
            codes = offer.verdicts.refresh(nodes, offer.wanted, self._deadline)
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

    def _deadline(self) -> Callable[[], bool]:
        timeout = self.args.filter_timeout.seconds
        if timeout <= 0:
            return lambda: False
        until, now = self.handle.now() + timeout, self.handle.now
        return lambda: now() > until

    def _unavailable(self, claims: PodClaims, nodes: Nodes) -> Iterable[tuple[int, BoolArray]]:
        """The allocated claims that cannot be used on some nodes, and on which."""
        for i, claim in enumerate(claims.claims):
            allocation = claim.allocation
            if allocation is None:
                continue
            rows = np.zeros(len(nodes), np.bool_)
            if allocation.node_selector is not None:
                rows = ~_rows_matching(nodes, allocation.node_selector)
            if not self._may_be_bound(claim):
                rows[:] = True
            if rows.any():
                yield i, rows

    def _may_be_bound(self, claim: ResourceClaim) -> bool:
        try:
            ready = binding.is_ready(claim)
        except binding.BindingFailed:
            return False
        return ready or not binding.is_overdue(claim, self.args.binding_timeout.seconds, self.handle.now())

    # ---- no node

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> Status:
        claims = state.get(CLAIMS)
        if claims is None:
            if self.name not in engine_state(state).skip_filter:
                return error(self.NOT_FOUND)  # a PreFilter plugin before this one ended the cycle
            return unschedulable(self.NOTHING_TO_DEALLOCATE)
        if not claims.claims:
            return unschedulable(self.NOTHING_TO_DEALLOCATE)
        for i in self.deallocation_candidates(claims, pod, statuses):
            self._write(pod, partial(binding.deallocate_claim, claim=claims.claims[i]))
            return unschedulable(self.DEALLOCATED)
        special = claims.special
        if special is not None and special.name != IN_MEMORY_NAME:
            self._write(pod, partial(binding.delete_claim, claim=special))
            return unschedulable(self.DELETED)
        return unschedulable(self.STILL_UNSCHEDULABLE)

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
        return status is not None and status.plugin == self.name and status.reasons == (self.UNAVAILABLE,)

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
        if claims is None or not any(_has_choice(claim) for claim in claims.claims):
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
        if offer.wanted is None or offer.verdicts is None:
            return None
        return offer.verdicts.solution(row, node, offer.wanted)

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
        if offer.wanted is None:
            return None  # the node serves the extended resources itself
        solution = self._solution(claims, row, nodes[row])
        if solution is None:
            return error("claim allocation not found for node")
        try:
            found = self._allocations(offer.wanted, solution, node_name)
        except AllocationError as problem:
            return error(str(problem))
        for i, wanted, allocation in zip(claims.unallocated(), offer.wanted, found, strict=True):
            claims.allocations[i] = allocation
            self._manager.tracker.allocate(_allocated(wanted.claim, allocation))
        return None

    def _allocations(self, wanted: Sequence[Wanted], solution: Solution, node_name: str) -> list[Allocation]:
        return allocations(wanted, solution, node_name, self._manager.device_class, self._new_share_id)

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
                self._write(pod, partial(binding.release_claim, claim=claim, uid=pod.uid))
        special = claims.special
        if special is None:
            return
        if tracker.settle(claims.special_uid):
            tracker.restore(special)
        if special.name != IN_MEMORY_NAME:
            self._write(pod, partial(binding.delete_claim, claim=special))

    # ---- writing

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Awaitable[Status | None] | None:
        claims = state.get(CLAIMS)
        if claims is None or not claims.claims or self.handle.client is None:
            return None
        return self._bind(claims, self.handle.client, pod, node_name)

    async def _bind(self, claims: PodClaims, client: Client, pod: PodInfo, node_name: str) -> Status | None:
        try:
            for i, claim in enumerate(claims.claims):
                if not claim.is_reserved_for(pod.uid):
                    claims.claims[i] = await self._bind_claim(claims, i, client, pod, node_name)
            if any(binding.waits_for_devices(claim) for claim in claims.claims):
                await self._wait_for_devices(claims, client, pod, node_name)
        except binding.BindingFailed as failure:
            return error(str(failure))
        return None

    async def _bind_claim(
        self, claims: PodClaims, i: int, client: Client, pod: PodInfo, node_name: str
    ) -> ResourceClaim:
        claim, allocation = claims.claims[i], claims.allocations.get(i)
        special = i >= claims.own
        if special and allocation is None and not claim.spec.devices.requests:
            return claim  # the node serves the extended resources itself
        tracker, written = self._manager.tracker, False
        uids = [claims.special_uid if special else claim.uid]
        try:
            if special and claim.name == IN_MEMORY_NAME:
                claim = claims.claims[i] = await self._create(claims, client, node_name)
                written = True
            claim = await binding.reserve_claim(client, claim, allocation, pod, self.handle.now())
            written = True
        finally:
            force = written and not special and tracker.assume(claim)
            if special and written and not tracker.assume(claim):
                await client.wait_until(lambda: tracker.assume(claim), SPECIAL_CLAIM_TIMEOUT)
            if allocation is not None:
                for uid in uids:
                    tracker.settle(uid, force=force)
        if special:
            await self._map_requests(claims, claim, client, pod, node_name)
        return claim

    async def _create(self, claims: PodClaims, client: Client, node_name: str) -> ResourceClaim:
        """Create the claim for extended resources as the chosen node needs it."""
        wanted = self._chosen_offer(claims, node_name).wanted
        if wanted is None:
            raise binding.BindingFailed(f"extended resource claim not found for node {node_name}")
        claim = wanted[-1].claim
        metadata = msgspec.structs.replace(claim.metadata, name="", uid="")
        try:
            return await client.create(msgspec.structs.replace(claim, metadata=metadata))
        except Exception as failure:
            raise binding.BindingFailed(
                f"create claim for extended resources {claim.namespace}/: {failure}"
            ) from failure

    async def _map_requests(
        self, claims: PodClaims, claim: ResourceClaim, client: Client, pod: PodInfo, node_name: str
    ) -> None:
        """Write into the pod's status which container uses which request of the claim."""
        mappings = self._chosen_offer(claims, node_name).mappings
        if not mappings:
            problem = f"no update of pod {pod.key} ExtendedResourceClaimStatus"
            raise binding.BindingFailed(f"nil or empty request mappings, {problem}")
        status = {
            "requestMappings": msgspec.to_builtins(mappings),
            "resourceClaimName": claim.name,
        }
        try:
            await client.patch(pod.pod, {"status": {"extendedResourceClaimStatus": status}}, "status")
        except Exception as failure:
            problem = f"update pod {pod.key} ExtendedResourceClaimStatus: {failure}"
            raise binding.BindingFailed(problem) from failure

    def _chosen_offer(self, claims: PodClaims, node_name: str) -> _Offer:
        row = self.handle.snapshot.nodes.index(node_name)
        return _Offer(None, []) if row is None else claims.offer(row)

    async def _wait_for_devices(
        self, claims: PodClaims, client: Client, pod: PodInfo, node_name: str
    ) -> None:
        note = f"waiting for binding conditions for device on node {node_name}"
        self.handle.emit_event(pod, "Normal", "BindingConditionsPending", "Scheduling", note)

        def ready() -> bool:
            self._manager.refresh()
            for i, claim in enumerate(claims.claims):
                current = self._manager.tracker.get(claim.name, claim.namespace)
                if current is None:
                    raise binding.BindingFailed(f'could not find ResourceClaim "{claim.key}"')
                claims.claims[i] = current
                if not binding.is_ready(current):
                    if binding.is_overdue(current, self.args.binding_timeout.seconds, self.handle.now()):
                        raise binding.BindingFailed(f"device binding timeout: claim={current.name}")
                    return False
            return True

        if not await client.wait_until(ready, self.args.binding_timeout.seconds):
            raise binding.BindingFailed("device binding timeout: context deadline exceeded")


_UNAVAILABLE, _CANNOT_FIT, _FIRST_ERROR = FAILS + 1, FAILS + 2, FAILS + 3


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
