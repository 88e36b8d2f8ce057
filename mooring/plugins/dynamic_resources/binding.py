"""Writing claims before a pod is bound: finalizer, allocation, reservation; and waiting for devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mooring.api.devices import (
    FINALIZER,
    Allocation,
    ConsumerReference,
    DeviceResult,
    ResourceClaim,
)
from mooring.api.meta import Condition
from mooring.api.times import parse_time
from mooring.framework.handle import Client
from mooring.framework.pod import PodInfo

RETRIES = 5  # attempts at a claim that keeps changing, as in client-go's DefaultRetry


class BindingFailed(Exception):  # noqa: N818 - says what happened
    """The claims could not be written, or will not be ready. `outcome` is "failure" for devices that failed,
    "timeout" for those that did not become ready in time."""

    def __init__(self, text: str, outcome: str = "error") -> None:
        super().__init__(text)
        self.outcome = outcome


def is_conflict(error: Exception) -> bool:
    """Whether a write was refused because the object had changed."""
    return bool(getattr(error, "conflict", False))


async def reserve_claim(
    client: Client, claim: ResourceClaim, allocation: Allocation | None, pod: PodInfo, timestamp: str | None
) -> ResourceClaim:
    """Write a new allocation, if there is one, and the pod's reservation; the claim as it is then."""
    for attempt in range(RETRIES):
        try:
            return await _reserve(client, claim, allocation, pod, timestamp)
        except BindingFailed as failure:
            cause = failure.__cause__
            if not isinstance(cause, Exception) or not is_conflict(cause) or attempt == RETRIES - 1:
                raise
        try:
            claim = await client.get(claim)
        except Exception as error:
            raise BindingFailed(f"get updated claim {claim.key} after conflict: {error}") from error
    raise AssertionError("the last attempt raises")


async def _reserve(
    client: Client, claim: ResourceClaim, allocation: Allocation | None, pod: PodInfo, timestamp: str | None
) -> ResourceClaim:
    key = claim.key
    if claim.metadata.deletion_timestamp is not None:
        raise BindingFailed(f"claim {key} got deleted in the meantime")
    if allocation is not None:
        if claim.allocation is not None:
            raise BindingFailed(f"claim {key} got allocated elsewhere in the meantime")
        if FINALIZER not in claim.metadata.finalizers:
            finalizers = [*claim.metadata.finalizers, FINALIZER]
            try:
                claim = await client.patch(claim, _patch(claim, {"finalizers": finalizers}))
            except Exception as error:
                raise BindingFailed(f"add finalizer to claim {key}: {error}") from error
    kept = claim.allocation if allocation is None else allocation
    if kept is None:
        raise BindingFailed(f"claim {key} got deallocated elsewhere in the meantime")
    if kept.allocation_timestamp is None and timestamp is not None:
        kept = msgspec.structs.replace(kept, allocation_timestamp=timestamp)
    user = ConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
    status = {
        "allocation": msgspec.to_builtins(kept),
        "reservedFor": msgspec.to_builtins([*claim.status.reserved_for, user]),
    }
    try:
        return await client.patch(claim, {**_patch(claim, {}), "status": status}, "status")
    except Exception as error:
        what = "allocation and reservation" if allocation is not None else "reservation"
        raise BindingFailed(f"add {what} to claim {key}: {error}") from error


async def release_claim(client: Client, claim: ResourceClaim, uid: str) -> ResourceClaim:
    """Remove a pod's reservation from a claim, whatever else happened to it; the claim as it is then."""
    for attempt in range(RETRIES):
        users = [user for user in claim.status.reserved_for if user.uid != uid]
        patch = {**_patch(claim, {}), "status": {"reservedFor": msgspec.to_builtins(users) or None}}
        try:
            return await client.patch(claim, patch, "status")
        except Exception as error:
            if not is_conflict(error) or attempt == RETRIES - 1:
                raise
        claim = await client.get(claim)
    raise AssertionError("the last attempt raises")


async def withdraw_allocation(client: Client, claim: ResourceClaim, uid: str) -> ResourceClaim:
    """Take back an allocation that was made for a pod, unless another pod has reserved the claim since; the
    claim as it is then."""
    for attempt in range(RETRIES):
        if claim.allocation is None or any(user.uid != uid for user in claim.status.reserved_for):
            return claim
        try:
            return await deallocate_claim(client, claim)
        except Exception as error:
            if not is_conflict(error) or attempt == RETRIES - 1:
                raise
        claim = await client.get(claim)
    raise AssertionError("the last attempt raises")


async def deallocate_claim(client: Client, claim: ResourceClaim) -> ResourceClaim:
    """Take a claim's devices away; the claim as it is then."""
    status = {"allocation": None, "reservedFor": None, "devices": None}
    return await client.patch(claim, {**_patch(claim, {}), "status": status}, "status")


async def delete_claim(client: Client, claim: ResourceClaim) -> None:
    """Delete a claim that the scheduler made, finalizer first."""
    for attempt in range(RETRIES):
        finalizers = [each for each in claim.metadata.finalizers if each != FINALIZER]
        try:
            claim = await client.patch(claim, _patch(claim, {"finalizers": finalizers or None}))
            break
        except Exception as error:
            if not is_conflict(error) or attempt == RETRIES - 1:
                raise
        claim = await client.get(claim)
    await client.delete(claim)


def _patch(claim: ResourceClaim, metadata: dict[str, Any]) -> dict[str, Any]:
    """A patch that applies only to the version of the claim that the decision was made for."""
    if claim.metadata.resource_version:
        metadata = {**metadata, "resourceVersion": claim.metadata.resource_version}
    return {"metadata": metadata} if metadata else {}


# ---- binding conditions


def waits_for_devices(claim: ResourceClaim) -> bool:
    """Whether a claim has devices that must become ready."""
    return any(result.binding_conditions for result in _results(claim))


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices of an allocated claim are ready; raises BindingFailed where one has failed."""
    if claim.allocation is None:
        return False
    for result in _results(claim):
        if not result.binding_conditions:
            continue
        conditions = _conditions(claim, result)
        if conditions is None:
            return False
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                reason, message = failed.reason, _quoted(failed.message)
                raise BindingFailed(
                    f"device binding failed: claim={claim.name}, reason={reason}, message={message}",
                    "failure",
                )
        for name in result.binding_conditions:
            condition = conditions.get(name)
            if condition is None or condition.status != "True":
                return False
    return True


def is_overdue(claim: ResourceClaim, timeout: float, now: float) -> bool:
    """Whether an allocated claim has waited too long for its devices."""
    allocation = claim.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    return waits_for_devices(claim) and parse_time(allocation.allocation_timestamp) + timeout < now


def _results(claim: ResourceClaim) -> Iterable[DeviceResult]:
    return () if claim.allocation is None else claim.allocation.devices.results


def _conditions(claim: ResourceClaim, result: DeviceResult) -> dict[str, Condition] | None:
    for device in claim.status.devices:
        if (device.driver, device.pool, device.device) == (result.driver, result.pool, result.device):
            return {condition.type: condition for condition in device.conditions}
    return None


def _quoted(text: str) -> str:
    """As Go's %q writes it."""
    return msgspec.json.encode(text).decode()
