"""The parts of dynamic resource allocation that feature gates switch off."""

from __future__ import annotations

from typing import NamedTuple

from mooring.runtime.engine_handle import EngineHandle


class DeviceFeatures(NamedTuple):
    """Which parts are enabled; by default all of them are."""

    prioritized_list: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    taints: bool = True
    partitionable_devices: bool = True
    extended_resource: bool = True
    filter_timeout: bool = True

    @classmethod
    def of(cls, handle: EngineHandle) -> DeviceFeatures:
        enabled = handle.feature_enabled
        return cls(
            prioritized_list=enabled("DRAPrioritizedList"),
            binding_conditions=enabled("DRADeviceBindingConditions")
            and enabled("DRAResourceClaimDeviceStatus"),
            consumable_capacity=enabled("DRAConsumableCapacity"),
            taints=enabled("DRADeviceTaints"),
            partitionable_devices=enabled("DRAPartitionableDevices"),
            extended_resource=enabled("DRAExtendedResource"),
            filter_timeout=enabled("DRASchedulerFilterTimeout"),
        )
