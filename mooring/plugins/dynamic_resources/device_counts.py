"""How many devices nodes have in place of extended resources, for the plugins that score resources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from mooring.api.devices import DeviceClass
from mooring.framework.nodes import IntArray
from mooring.plugins.dynamic_resources.extended_resources import ResourceClasses, is_extended_resource
from mooring.plugins.dynamic_resources.inventory import DeviceInfo
from mooring.plugins.dynamic_resources.manager import DeviceManager
from mooring.plugins.dynamic_resources.plan import expressions
from mooring.plugins.resource_columns import ScoredResources
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import EngineNode, EngineNodes


class DeviceCounts:
    """Amounts of nodes with two more lines for each scored resource that has none in the table, or that a
    device class stands behind: what a node has, and what is in use. Where the node itself has the resource,
    these are its own amounts, otherwise the devices of the class."""

    def __init__(self, handle: EngineHandle) -> None:
        self._handle = handle
        self._tables: dict[str, _ClassTable] = {}  # by class

    def backed(self, resources: Iterable[str]) -> Sequence[str]:
        """The resources that DynamicResources allocates devices for on nodes that have none of them."""
        extended = [name for name in resources if is_extended_resource(name)]
        if not extended or not self._handle.feature_enabled("DRAExtendedResource"):
            return ()
        classes = ResourceClasses(self._handle.listers.list(DeviceClass))
        return [name for name in extended if classes.get(name) is not None]

    def amounts(self, nodes: EngineNodes, scored: ScoredResources) -> IntArray:
        """The amounts of nodes, and the lines of the resources apart."""
        if not scored.apart:
            return nodes.amounts
        lines: list[IntArray] = [nodes.amounts]
        for name in scored.apart:
            own = np.stack([nodes.allocatable[name], nodes.requested[name]])
            if name in scored.device_backed:
                own = np.where(own[0] > 0, own, self._table(name).on(nodes))
            lines.append(own)
        return np.concatenate(lines)

    def amounts_on(self, node: EngineNode, scored: ScoredResources) -> Sequence[int]:
        """`amounts` of one node."""
        if not scored.apart:
            return node.amounts
        amounts = list(node.amounts)
        for name in scored.apart:
            own = node.allocatable[name], node.requested[name]
            amounts += own if own[0] or name not in scored.device_backed else self._table(name).count(node)
        return amounts

    def _table(self, resource: str) -> _ClassTable:
        manager = DeviceManager.of(self._handle)
        manager.refresh()
        device_class = manager.resource_classes().get(resource)
        assert device_class is not None, resource
        table = self._tables.get(device_class.name)
        if table is None or table.device_class is not device_class:
            table = self._tables[device_class.name] = _ClassTable(manager, device_class)
        return table


class _ClassTable:
    """For each row of the node table the devices of a class, and how many of them are in use."""

    def __init__(self, manager: DeviceManager, device_class: DeviceClass) -> None:
        self.device_class = device_class
        self._manager = manager
        self._expressions = expressions(device_class.spec.selectors)
        self._counts: IntArray = np.zeros((2, 0), np.int64)
        self._version = -1
        self._position = 0

    def on(self, nodes: EngineNodes) -> IntArray:
        self._refresh(nodes.whole)
        return self._counts[:, nodes.rows]

    def _refresh(self, nodes: EngineNodes) -> None:
        inventory = self._manager.inventory
        stale = inventory.since(self._position) if nodes.node_version == self._version else None
        if stale is None or self._counts.shape[1] != len(nodes):
            self._counts = np.array([self.count(node) for node in nodes], np.int64).reshape(-1, 2).T
        else:
            for name in dict.fromkeys(stale):
                row = nodes.index(name)
                if row is not None:
                    self._counts[:, row] = self.count(nodes[row])
        self._version, self._position = nodes.node_version, inventory.position

    def count(self, node: EngineNode) -> tuple[int, int]:
        """None at all where a selector cannot be evaluated for some device: kube-scheduler then leaves the
        resource out."""
        total = in_use = 0
        for device in self._manager.inventory.reachable(node):
            matches = self._matches(device)
            if isinstance(matches, str):
                return 0, 0
            if matches:
                total += 1
                in_use += self._manager.tracker.usage.holds(device.id)
        return total, in_use

    def _matches(self, info: DeviceInfo) -> bool | str:
        selectors, seen = self._manager.world.selectors, info.input
        if info.device.allow_multiple_allocations:  # which kube-scheduler does not show to selectors here
            device = msgspec.structs.replace(info.device, allow_multiple_allocations=None)
            seen = selectors.input(info.slice.driver, device)
        return selectors.all_match(self._expressions, seen)[1]
