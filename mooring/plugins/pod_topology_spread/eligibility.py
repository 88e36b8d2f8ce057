"""Which nodes a constraint counts: those that have the topology keys and pass its inclusion policies."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from mooring.api.tolerations import find_untolerated
from mooring.framework.nodes import BoolArray
from mooring.framework.pod import Shape
from mooring.plugins.matching import match_required
from mooring.plugins.pod_topology_spread.constraints import Constraint
from mooring.runtime.engine_nodes import EngineNodes


class Eligibility:
    """The policies of one pod's constraints over all rows of the table, each worked out when it is needed."""

    def __init__(self, whole: EngineNodes, shape: Shape) -> None:
        self._whole = whole
        self._shape = shape

    def having(self, keys: Iterable[str]) -> BoolArray:
        """The rows that have every one of these labels."""
        having = np.ones(len(self._whole), np.bool_)
        for key in keys:
            ids, values = self._whole.label(key)
            if not values:  # a label that no node has
                return np.zeros(len(self._whole), np.bool_)
            having &= ids >= 0
        return having

    def included(self, constraint: Constraint, rows: BoolArray) -> BoolArray:
        """Those of `rows` that the constraint's nodeAffinityPolicy and nodeTaintsPolicy let count."""
        if constraint.honor_affinity:
            rows = rows & self._selected
        if constraint.honor_taints:
            rows = rows & self._tolerated
        return rows

    @cached_property
    def _selected(self) -> BoolArray:
        return match_required(self._whole, self._shape)

    @cached_property
    def _tolerated(self) -> BoolArray:
        ids, taint_sets = self._whole.taints
        tolerations = self._shape.spec.tolerations
        tolerated = [find_untolerated(taints, tolerations) is None for taints in taint_sets]
        return np.array([*tolerated, True], np.bool_)[ids]  # id -1, the last, has no taints
