"""Device taint eviction: pods leave devices with NoExecute taints that their claims do not tolerate, at once
or when they have tolerated them for as long as they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mooring.api.devices import DeviceResult, DeviceTaint, ResourceClaim, ResourceSlice
from mooring.api.kinds import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from mooring.api.objects import Pod
from mooring.api.times import parse_time
from mooring.api.tolerations import NO_EXECUTE
from mooring.client.api_errors import ClusterError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.claim_users import claim_name, is_owner
from mooring.sandbox.controllers.placement import disrupt

_REASON = "DeviceTaintManagerEviction"
_POOL = "device pool"


class _Eviction(NamedTuple):
    uid: str
    at: float


class DeviceTaintEviction(Controller):
    name = "device-taint-eviction-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._evictions: dict[str, _Eviction] = {}  # to come, by pod
        self._pods = self.cache.follow(PODS)
        self._claims = self.cache.follow(RESOURCE_CLAIMS)
        self._slices = self.cache.follow(RESOURCE_SLICES)
        self._claims.index(_POOL, _pools_of)
        self._slices.index(_POOL, lambda each: (_pool_of(each),), key="identity")
        self._slices.subscribe(self._slice_changed)
        self._claims.subscribe(self._claim_changed)
        self._pods.subscribe(self._pod_changed)

    # ---- what changes

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if _evicting(old) == _evicting(new):
            return
        changed = old if new is None else new
        assert changed is not None
        for claim in self._claims.by(_POOL, _pool_of(changed)):
            self._consider_users(claim)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for claim in (old, new):
            if claim is not None and claim.status.reserved_for:
                self._consider_users(claim)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            assert old is not None
            self._evictions.pop(old.key, None)
        elif new.spec.resource_claims and (
            old is None
            or old.spec.node_name != new.spec.node_name
            or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        ):
            self._consider(new)

    def _consider_users(self, claim: ResourceClaim) -> None:
        for consumer in claim.status.reserved_for:
            pod = self._pods.get(f"{claim.namespace}/{consumer.name}")
            if pod is not None and pod.uid == consumer.uid:
                self._consider(pod)

    def _consider(self, pod: Pod) -> None:
        """Decide when a pod has to leave, if it has to."""
        times = [at for claim in self._reserved(pod) for at in self._times(claim)]
        if not times or pod.terminating:
            known = self._evictions.pop(pod.key, None)
            if known is not None and not pod.terminating:
                self.event(self._pods, pod, "Normal", _REASON, "Cancelling deletion")
            return
        eviction = _Eviction(pod.uid, min(times))
        if self._evictions.get(pod.key) != eviction:
            self._evictions[pod.key] = eviction
            self.enqueue(pod.key, max(eviction.at - self.context.clock(), 0.0))

    def _reserved(self, pod: Pod) -> Iterator[ResourceClaim]:
        """The allocated claims of a pod that has a node."""
        for entry in pod.spec.resource_claims if pod.spec.node_name else ():
            _, name = claim_name(pod, entry)
            claim = self._claims.get(f"{pod.namespace}/{name}")
            if claim is None or not claim.is_reserved_for(pod.uid):
                continue
            if entry.resource_claim_template_name is None or is_owner(pod, claim):
                yield claim

    def _times(self, claim: ResourceClaim) -> Iterator[float]:
        """When the taints of a claim's devices evict its users."""
        for result in claim.allocation.devices.results if claim.allocation is not None else ():
            for taint in self._taints(result):
                at = _eviction_time(taint, result)
                if at is not None:
                    yield at

    def _taints(self, result: DeviceResult) -> list[DeviceTaint]:
        slices = self._slices.by(_POOL, f"{result.driver}/{result.pool}")
        newest = max((each.spec.pool.generation for each in slices), default=0)
        return [
            taint
            for each in slices
            if each.spec.pool.generation == newest
            for device in each.spec.devices
            if device.name == result.device
            for taint in device.taints
            if taint.effect == NO_EXECUTE
        ]

    # ---- one pod

    async def sync(self, key: str) -> None:
        eviction, pod = self._evictions.get(key), self._pods.get(key)
        if eviction is None or pod is None or pod.uid != eviction.uid or pod.terminating:
            return
        left = eviction.at - self.context.clock()
        if left > 0:
            self.enqueue(key, left)
            return
        self.event(self._pods, pod, "Normal", _REASON, "Marking for deletion")
        message = "Device Taint manager: deleting due to NoExecute taint"
        pod = await disrupt(self, self._pods, pod, "DeletionByDeviceTaintManager", message)
        self._evictions.pop(key, None)  # from now on its end is no cancellation
        try:
            await self.delete(self._pods, pod)
        except ClusterError:
            self._evictions[key] = eviction
            raise


def _pool_of(slice: ResourceSlice) -> str:
    return f"{slice.spec.driver}/{slice.spec.pool.name}"


def _pools_of(claim: ResourceClaim) -> tuple[str, ...]:
    if claim.allocation is None:
        return ()
    return tuple({f"{each.driver}/{each.pool}" for each in claim.allocation.devices.results})


def _evicting(slice: ResourceSlice | None) -> dict[str, list[DeviceTaint]]:
    """The taints of a slice that evict, by device."""
    devices = slice.spec.devices if slice is not None else []
    by_device = {each.name: [one for one in each.taints if one.effect == NO_EXECUTE] for each in devices}
    return {name: taints for name, taints in by_device.items() if taints}


def _eviction_time(taint: DeviceTaint, result: DeviceResult) -> float | None:
    """When a taint evicts the users of a device; None if they tolerate it for good."""
    added = parse_time(taint.time_added) if taint.time_added else 0.0
    tolerations = [each for each in result.tolerations if each.effect == NO_EXECUTE and each.tolerates(taint)]
    seconds = [each.toleration_seconds for each in tolerations]
    if None in seconds:
        return None
    return added + min((max(each or 0, 0) for each in seconds), default=0)
