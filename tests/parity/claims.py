"""Resource claims in the corpus: what an API server would do to them, and what a replay tells of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from mooring.api.devices import AllocatedDeviceStatus, ResourceClaim
from mooring.api.meta import Condition, KubeObject
from mooring.api.objects import Pod
from mooring.core.memory import MemoryClient, MemoryCluster
from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import Nodes, Verdicts
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status
from mooring.plugins.dynamic_resources.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.pod_claims import CLAIMS, PodClaims

Obj = TypeVar("Obj", bound=KubeObject)


class RecordedResources(DynamicResources):
    """The plugin, which remembers the claims of the latest attempt and what it could deallocate."""

    latest: PodClaims | None = None
    candidates: Sequence[str] = ()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Any:
        self.latest, self.candidates = None, ()
        return super().pre_filter(state, pod, nodes)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        self.latest = state.get(CLAIMS)
        return super().filter_nodes(state, pod, nodes)

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> Status:
        claims = state.get(CLAIMS)
        if claims is not None:
            found = self.deallocation_candidates(claims, pod, statuses)
            self.candidates = [claims.claims[i].key for i in found]
        return super().post_filter(state, pod, statuses)

    def node_allocations(self, feasible: list[str]) -> dict[str, list[list[str]]]:
        """The devices that were found for each feasible node, as the corpus writes them."""
        claims, nodes = self.latest, self.handle.snapshot.nodes
        found: dict[str, list[list[str]]] = {}
        for name in feasible if claims is not None and claims.offers else ():
            row = nodes.index(name)
            assert row is not None
            assert claims is not None
            solution = self._solution(claims, row, nodes[row])
            if solution is not None:
                found[name] = [
                    [f"{each.alternative.result_name}={'/'.join(each.device.id)}" for each in devices]
                    for devices in solution.devices
                ]
        return found


class Client(MemoryClient):
    """A client whose API server makes all conditions of new allocations true at once."""

    async def patch(self, obj: Obj, patch: dict[str, Any], subresource: str = "") -> Obj:
        before = self._current(obj)
        patched: Any = await super().patch(obj, patch, subresource)
        if isinstance(before, ResourceClaim) and before.allocation is None and patched.allocation is not None:
            ready = msgspec.structs.replace(patched.status, devices=_ready(patched))
            patched = msgspec.structs.replace(patched, status=ready)
            self._cluster.apply(patched)
        return cast(Obj, patched)

    async def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        return done()


def _ready(claim: ResourceClaim) -> list[AllocatedDeviceStatus]:
    assert claim.allocation is not None
    return [
        AllocatedDeviceStatus(
            driver=result.driver,
            pool=result.pool,
            device=result.device,
            conditions=[Condition(type=name, status="True") for name in result.binding_conditions],
        )
        for result in claim.allocation.devices.results
        if result.binding_conditions
    ]


class ApiServer(MemoryCluster):
    """Objects as an API server holds them: claims have versions, and a finalizer keeps them."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        scheduler.client = Client(self)

    def apply(self, obj: KubeObject) -> None:
        if isinstance(obj, ResourceClaim) and not obj.metadata.resource_version:
            metadata = msgspec.structs.replace(obj.metadata, resource_version="1")
            obj = msgspec.structs.replace(obj, metadata=metadata)
        super().apply(obj)

    def claims(self) -> dict[str, ResourceClaim]:
        return {claim.key: claim for claim in self.scheduler.store.list(ResourceClaim)}


def describe(pod: Pod, before: dict[str, ResourceClaim], after: dict[str, ResourceClaim]) -> list[Any]:
    """The pod's claims after its attempt, then those that the scheduler created, in the corpus' form."""
    found = []
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name
        if name is None:
            statuses = [s for s in pod.status.resource_claim_statuses if s.name == entry.name]
            name = statuses[0].resource_claim_name if statuses else None
        claim = None if name is None else after.get(f"{pod.namespace}/{name}")
        if claim is not None:
            found.append({"entry": entry.name, "claim": claim.key, **_state(claim)})
    for key in sorted(after.keys() - before.keys()):
        claim = after[key]
        meta = claim.metadata
        found.append(
            {
                "entry": "",
                "claim": f"{meta.namespace}/{meta.generate_name}*",
                "generated": True,
                "requests": [_request(each) for each in msgspec.to_builtins(claim.spec.devices.requests)],
                "ownerReferences": msgspec.to_builtins(meta.owner_references),
                "annotations": meta.annotations,
                **_state(claim),
            }
        )
    return found


def _request(request: dict[str, Any]) -> dict[str, Any]:
    """With what an API server fills in."""
    return {**request, "exactly": {"allocationMode": "ExactCount", **request["exactly"]}}


def _state(claim: ResourceClaim) -> dict[str, Any]:
    found: dict[str, Any] = {"allocated": claim.allocation is not None}
    if claim.metadata.finalizers:
        found["finalizers"] = claim.metadata.finalizers
    if claim.status.reserved_for:
        found["reservedFor"] = [f"{user.resource}/{user.name}" for user in claim.status.reserved_for]
    if claim.allocation is not None:
        allocation = msgspec.to_builtins(claim.allocation)
        results = allocation.get("devices", {}).get("results", [])
        for result in results:
            if result.pop("shareID", None) is not None:
                result["shared"] = True
        found |= {"results": results} if results else {}
        config = allocation.get("devices", {}).get("config")
        found |= {"config": config} if config else {}
        selector = allocation.get("nodeSelector")
        found |= {"nodeSelector": selector} if selector else {}
    return found


def changed(before: dict[str, ResourceClaim], after: dict[str, ResourceClaim]) -> tuple[list[str], list[str]]:
    """The claims that lost their allocation, and those that were deleted."""
    lost = [
        key
        for key, claim in before.items()
        if claim.allocation is not None and key in after and after[key].allocation is None
    ]
    return sorted(lost), sorted(before.keys() - after.keys())
