"""PreBind: claims are written, and their devices are ready, before the pod is bound."""

from __future__ import annotations

import msgspec

from mooring.api.devices import ResourceClaim
from mooring.api.times import format_time
from mooring.framework.handle import Client
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, error
from mooring.plugins.args import DynamicResourcesArgs
from mooring.plugins.dynamic_resources import binding
from mooring.plugins.dynamic_resources.contention import earlier_holder
from mooring.plugins.dynamic_resources.extended_resources import IN_MEMORY_NAME
from mooring.plugins.dynamic_resources.manager import DeviceManager
from mooring.plugins.dynamic_resources.pod_claims import Offer, PodClaims
from mooring.runtime.engine_handle import EngineHandle

SPECIAL_CLAIM_TIMEOUT = 120.0  # seconds until the claim for extended resources must have come back
CONFIRMATION_TIMEOUT = 30.0  # seconds until an allocation must have come back


class ClaimBinder:
    """Writes the claims of pods that have a node."""

    def __init__(self, manager: DeviceManager, args: DynamicResourcesArgs, handle: EngineHandle) -> None:
        self._manager = manager
        self._args = args
        self._handle = handle
        self._waits_for_devices = manager.features.binding_conditions

    async def bind(self, claims: PodClaims, client: Client, pod: PodInfo, node_name: str) -> Status | None:
        try:
            for i, claim in enumerate(claims.claims):
                if not claim.is_reserved_for(pod.uid):
                    claims.claims[i] = await self._bind_claim(claims, i, client, pod, node_name)
            if self._waits_for_devices and any(binding.waits_for_devices(claim) for claim in claims.claims):
                await self._wait_for_devices(claims, client, pod, node_name)
        except binding.BindingFailed as failure:
            return error(str(failure))
        return None

    def _timestamp(self) -> str | None:
        """When an allocation that is written now was made; only binding conditions need it."""
        return format_time(self._handle.now()) if self._waits_for_devices else None

    async def _bind_claim(
        self, claims: PodClaims, i: int, client: Client, pod: PodInfo, node_name: str
    ) -> ResourceClaim:
        claim, allocation = claims.claims[i], claims.allocations.get(i)
        special = i >= claims.own
        if special and allocation is None and not claim.spec.devices.requests:
            return claim  # the node serves the extended resources itself
        tracker, written = self._manager.tracker, False
        try:
            if special and claim.name == IN_MEMORY_NAME:
                claim = claims.claims[i] = await self._create(claims, client, node_name)
                written = True
            reserved = await binding.reserve_claim(client, claim, allocation, pod, self._timestamp())
            if allocation is not None:
                await self._confirm(client, reserved, pod, node_name, claims.special_uid if special else "")
            claim, written = reserved, True
        finally:
            force = written and not special and tracker.assume(claim)
            if special and written and not tracker.assume(claim):
                await client.wait_until(lambda: tracker.assume(claim), SPECIAL_CLAIM_TIMEOUT)
            if allocation is not None:
                tracker.settle(claims.special_uid if special else claim.uid, force=force)
        if special:
            await self._map_requests(claims, claim, client, pod, node_name)
        return claim

    async def _confirm(
        self, client: Client, claim: ResourceClaim, pod: PodInfo, node_name: str, in_flight: str
    ) -> None:
        """Withdraw an allocation if another scheduler allocated its devices first. `in_flight` is the uid
        under which the devices of a created claim are counted until then.

        All schedulers see writes in the order of etcd, so once an allocation has come back through the watch,
        those that preceded it have too. kube-scheduler does not look.
        """
        tracker = self._manager.tracker

        def has_returned() -> bool:
            self._manager.refresh()
            return tracker.has_seen(claim)

        confirmed = await client.wait_until(has_returned, CONFIRMATION_TIMEOUT)
        self._manager.refresh()
        if confirmed and in_flight:
            tracker.settle(in_flight)  # now they count for the claim itself
        node = self._handle.snapshot.node(node_name)
        rival = None if node is None else earlier_holder(self._manager, claim, node)
        if confirmed and rival is None:
            return
        try:
            withdrawn = await binding.withdraw_allocation(client, claim, pod.uid)
        except Exception as failure:
            raise binding.BindingFailed(f"withdraw allocation of claim {claim.key}: {failure}") from failure
        tracker.assume(withdrawn)  # a watch that is behind may show the allocation yet
        if rival is None:
            raise binding.BindingFailed(f"allocation of claim {claim.key} was not seen on the watch")
        raise binding.BindingFailed(f"devices of claim {claim.key} got allocated to claim {rival} first")

    async def _create(self, claims: PodClaims, client: Client, node_name: str) -> ResourceClaim:
        """Create the claim for extended resources as the chosen node needs it."""
        planned = self._chosen_offer(claims, node_name).planned
        if planned is None:
            raise binding.BindingFailed(f"extended resource claim not found for node {node_name}")
        claim = planned[-1].claim
        metadata = msgspec.structs.replace(claim.metadata, name="", uid="")
        observer = self._handle.observer
        try:
            created = await client.create(msgspec.structs.replace(claim, metadata=metadata))
        except Exception as failure:
            if observer is not None:
                observer.claim_created("failure")
            raise binding.BindingFailed(
                f"create claim for extended resources {claim.namespace}/: {failure}"
            ) from failure
        if observer is not None:
            observer.claim_created("success")
        return created

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

    def _chosen_offer(self, claims: PodClaims, node_name: str) -> Offer:
        row = self._handle.snapshot.nodes.index(node_name)
        return Offer(None, []) if row is None else claims.offer(row)

    async def _wait_for_devices(
        self, claims: PodClaims, client: Client, pod: PodInfo, node_name: str
    ) -> None:
        note = f"waiting for binding conditions for device on node {node_name}"
        self._handle.emit_event(pod, "Normal", "BindingConditionsPending", "Scheduling", note)
        began, outcome = self._handle.now(), "success"
        try:
            await self._until_ready(claims, client)
        except binding.BindingFailed as failure:
            outcome = failure.outcome
            raise
        finally:
            self._record_wait(claims, outcome, self._handle.now() - began)

    def _record_wait(self, claims: PodClaims, outcome: str, seconds: float) -> None:
        if self._handle.observer is not None:
            allocations = [claim.allocation for claim in claims.claims if claim.allocation is not None]
            results = [result for each in allocations for result in each.devices.results]
            drivers = [(result.driver, bool(result.binding_conditions)) for result in results]
            self._handle.observer.devices_waited(self._handle.profile_name, drivers, outcome, seconds)

    async def _until_ready(self, claims: PodClaims, client: Client) -> None:
        timeout = self._args.binding_timeout.seconds

        def ready() -> bool:
            self._manager.refresh()
            for i, claim in enumerate(claims.claims):
                current = self._manager.tracker.get(claim.name, claim.namespace)
                if current is None:
                    raise binding.BindingFailed(f'could not find ResourceClaim "{claim.key}"')
                claims.claims[i] = current
                if not binding.is_ready(current):
                    if binding.is_overdue(current, timeout, self._handle.now()):
                        text = f"device binding timeout: claim={current.name}"
                        raise binding.BindingFailed(text, "timeout")
                    return False
            return True

        if not await client.wait_until(ready, timeout):
            raise binding.BindingFailed("device binding timeout: context deadline exceeded", "timeout")
