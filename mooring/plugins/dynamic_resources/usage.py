"""The devices that allocated claims hold."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api import quantity
from mooring.api.devices import DeviceResult
from mooring.plugins.dynamic_resources.capacity import NOTHING, Amounts
from mooring.plugins.dynamic_resources.inventory import DeviceId


class Usage:
    """Which devices are in use: exclusively, or by shares of their capacity. Devices count whether or not a
    slice has them; allocations for administrators do not."""

    def __init__(self) -> None:
        self.exclusive: dict[DeviceId, int] = {}  # with the number of claims, which should be one
        self._shares: dict[DeviceId, int] = {}
        self._consumed: dict[DeviceId, dict[str, int]] = {}

    def add(self, results: Iterable[DeviceResult]) -> None:
        self._change(results, 1)

    def remove(self, results: Iterable[DeviceResult]) -> None:
        self._change(results, -1)

    def _change(self, results: Iterable[DeviceResult], sign: int) -> None:
        for result in results:
            if result.admin_access:
                continue
            device = (result.driver, result.pool, result.device)
            if result.share_id is None:
                _count(self.exclusive, device, sign)
                continue
            _count(self._shares, device, sign)
            consumed = self._consumed.setdefault(device, {})
            for name, raw in result.consumed_capacity.items():
                consumed[name] = consumed.get(name, 0) + sign * quantity.parse(raw)
            if device not in self._shares:
                del self._consumed[device]

    def holds(self, device: DeviceId) -> bool:
        """Whether a device is in use in either way."""
        return device in self.exclusive or device in self._shares

    def is_shared(self, device: DeviceId) -> bool:
        """Whether some of the device's capacity is consumed."""
        return bool(self._consumed.get(device))

    def consumed(self, device: DeviceId) -> Amounts:
        return self._consumed.get(device, NOTHING)


def _count(counts: dict[DeviceId, int], device: DeviceId, sign: int) -> None:
    count = counts.get(device, 0) + sign
    if count > 0:
        counts[device] = count
    else:
        counts.pop(device, None)
