"""What the plugins of all profiles share: claims, devices, classes."""

from __future__ import annotations

import numpy as np

from mooring.api.devices import DeviceClass, ResourceSlice
from mooring.plugins.dynamic_resources.device_selectors import Selectors
from mooring.plugins.dynamic_resources.extended_resources import ResourceClasses
from mooring.plugins.dynamic_resources.features import DeviceFeatures
from mooring.plugins.dynamic_resources.inventory import Inventory
from mooring.plugins.dynamic_resources.plan import Plans
from mooring.plugins.dynamic_resources.search import World
from mooring.plugins.dynamic_resources.tracker import ClaimTracker
from mooring.plugins.dynamic_resources.verdicts import Codes, VerdictCache
from mooring.runtime.engine_handle import EngineHandle, EngineListers


class DeviceManager:
    """One for each scheduler."""

    def __init__(self, listers: EngineListers, features: DeviceFeatures) -> None:
        self._listers = listers
        self.features = features
        self._slices = listers.changes(ResourceSlice)
        self._classes_version: int | None = None
        self._classes = ResourceClasses(())
        selectors = Selectors()
        self.inventory = Inventory(selectors, features)
        self.tracker = ClaimTracker(listers, self.inventory)
        self.plans = Plans()
        self.world = World(self.tracker.usage, selectors, self.device_class, features)
        self.verdicts = VerdictCache(self.world, self.inventory)
        self._all_pass: Codes = np.zeros(0, np.int32)

    @classmethod
    def of(cls, handle: EngineHandle) -> DeviceManager:
        """The manager of a scheduler, made for the first plugin that needs it."""
        return handle.shared(cls, lambda: cls(handle.listers, DeviceFeatures.of(handle)))

    def refresh(self) -> None:
        """Take in what changed since the last call."""
        self.inventory.apply(self._slices.take())
        self.tracker.refresh()

    def device_class(self, name: str) -> DeviceClass | None:
        return self._listers.get(DeviceClass, name)

    def resource_classes(self) -> ResourceClasses:
        """The classes behind extended resources."""
        if not self.features.extended_resource:
            return self._classes
        version = self._listers.version(DeviceClass)
        if version != self._classes_version:
            self._classes_version = version
            self._classes = ResourceClasses(self._listers.list(DeviceClass))
        return self._classes

    def all_pass(self, length: int) -> Codes:
        if len(self._all_pass) != length:
            self._all_pass = np.zeros(length, np.int32)
        return self._all_pass
