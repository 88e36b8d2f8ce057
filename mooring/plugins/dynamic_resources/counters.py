"""Shared counters: what devices that are parts of one piece of hardware take from each other."""

from __future__ import annotations

from mooring.plugins.dynamic_resources.inventory import Counters, DeviceInfo, Pool
from mooring.plugins.dynamic_resources.usage import Usage


class PoolCounters:
    """The counters of one pool during a search: what is available, and what the search has taken."""

    __slots__ = ("_available", "_consumed")

    def __init__(self, pool: Pool, usage: Usage) -> None:
        self._available: Counters = {name: dict(counters) for name, counters in pool.counters.items()}
        self._consumed: Counters = {
            name: dict.fromkeys(counters, 0) for name, counters in pool.counters.items()
        }
        for device in (*pool.devices, *pool.elsewhere):
            if device.consumes and usage.holds(device.id):
                for name, counters in device.consumes:
                    for counter, amount in counters.items():
                        self._available[name][counter] -= amount

    @property
    def is_overdrawn(self) -> bool:
        """Whether allocated devices consume more than there is."""
        return any(left < 0 for counters in self._available.values() for left in counters.values())

    def take(self, device: DeviceInfo) -> bool:
        """Take what a device consumes, if all counters of the pool stay at or above zero."""
        self._add(device, 1)
        for name, counters in self._consumed.items():
            available = self._available[name]
            if any(available[counter] < amount for counter, amount in counters.items()):
                self._add(device, -1)
                return False
        return True

    def give_back(self, device: DeviceInfo) -> None:
        self._add(device, -1)

    def _add(self, device: DeviceInfo, sign: int) -> None:
        for name, counters in device.consumes:
            consumed = self._consumed[name]
            for counter, amount in counters.items():
                consumed[counter] += sign * amount
