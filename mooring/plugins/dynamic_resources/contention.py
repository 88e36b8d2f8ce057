"""Devices that two schedulers allocated at the same time: the one that was first keeps them."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api import quantity
from mooring.api.devices import DeviceResult, ResourceClaim
from mooring.framework.nodes import NodeInfo
from mooring.plugins.dynamic_resources.counters import PoolCounters
from mooring.plugins.dynamic_resources.inventory import DeviceId, Pool
from mooring.plugins.dynamic_resources.manager import DeviceManager


def earlier_holder(manager: DeviceManager, claim: ResourceClaim, node: NodeInfo) -> str | None:
    """The claim that was allocated before this one and leaves too little for it; its key."""
    results = [] if claim.allocation is None else claim.allocation.devices.results
    contested = {device for result in results for device in _contested(manager, result, node)}
    return manager.tracker.earlier_holder(claim, contested) if contested else None


def _contested(manager: DeviceManager, result: DeviceResult, node: NodeInfo) -> Iterator[DeviceId]:
    """The devices that take from each other what this allocated one needs."""
    if result.admin_access:
        return
    usage, device = manager.tracker.usage, (result.driver, result.pool, result.device)
    pool = next((p for p in manager.inventory.of(node).pools if p.id == device[:2]), None)
    holders = usage.exclusive.get(device, 0)
    if holders > 1 or (holders and usage.is_shared(device)) or _is_overdrawn(manager, pool, device):
        yield device
    if pool is not None and pool.counters and PoolCounters(pool, usage).is_overdrawn:
        yield from (each.id for each in (*pool.devices, *pool.elsewhere) if each.consumes)


def _is_overdrawn(manager: DeviceManager, pool: Pool | None, device: DeviceId) -> bool:
    """Whether shares of a device add up to more than its capacity."""
    consumed = manager.tracker.usage.consumed(device)
    info = next((each for each in pool.devices if each.id == device), None) if pool and consumed else None
    if info is None:
        return False
    capacity = info.device.capacity
    return any(
        amount > quantity.parse(capacity[name].value) for name, amount in consumed.items() if name in capacity
    )
