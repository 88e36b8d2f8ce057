"""CSINode objects as columns of the node table: limits by driver, and migrated in-tree plugins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.api.storage import CSINode
from mooring.framework.handle import Listers
from mooring.framework.nodes import BoolArray, IntArray
from mooring.plugins.volumes.migration import migrated_plugins
from mooring.runtime.engine_nodes import EngineNodes

NO_LIMIT = np.iinfo(np.int64).max


class CSINodes:
    """What the nodes' CSINodes say, one value per row of the whole table."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._names: Sequence[str] = ()
        self.present: BoolArray = np.zeros(0, np.bool_)
        self._limits: dict[str, IntArray] = {}
        self._migrated: dict[str, BoolArray] = {}

    def refresh(self, listers: Listers, nodes: EngineNodes) -> None:
        """Bring the columns up to date with these nodes, which must be the whole table.

        Nothing here follows from the Node objects but which row they are in, so their names are compared
        instead of their versions, which change far more often.
        """
        version, names = listers.version(CSINode), nodes.names
        if version == self._version and names == self._names:
            return
        self._version, self._names = version, list(names)
        self.present = np.zeros(len(names), np.bool_)
        self._limits, self._migrated = {}, {}
        rows = {name: row for row, name in enumerate(names)}
        for csi_node in listers.list(CSINode):
            row = rows.get(csi_node.name)
            if row is not None:
                self._read(row, csi_node)

    def _read(self, row: int, csi_node: CSINode) -> None:
        self.present[row] = True
        for driver in csi_node.spec.drivers:
            if driver.allocatable is not None and driver.allocatable.count is not None:
                self._column(driver.name)[row] = driver.allocatable.count
        for plugin in migrated_plugins(csi_node):
            if plugin not in self._migrated:
                self._migrated[plugin] = np.zeros(len(self._names), np.bool_)
            self._migrated[plugin][row] = True

    def _column(self, driver: str) -> IntArray:
        if driver not in self._limits:
            self._limits[driver] = np.full(len(self._names), NO_LIMIT, np.int64)
        return self._limits[driver]

    def limits(self, driver: str) -> IntArray | None:
        """How many volumes of a driver each node takes, or NO_LIMIT; None where no node has a limit."""
        return self._limits.get(driver)

    def migrated(self, plugin: str) -> BoolArray | None:
        """The nodes on which an in-tree plugin is migrated; None where there are none."""
        return self._migrated.get(plugin)
