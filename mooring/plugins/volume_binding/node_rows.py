"""Which rows of the node table selectors match, remembered while the nodes stay as they are.

Clusters with local volumes have a volume, and a selector, for every node. So the rows are kept as short
index arrays, and the common selector (one label, some values) is a lookup instead of a scan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mooring.api.objects import NodeSelector
from mooring.api.selectors import IN, NOTHING, Selector, compile_node_term
from mooring.api.storage import VolumeNodeAffinity
from mooring.framework.nodes import BoolArray
from mooring.plugins.matching import match_selector
from mooring.runtime.engine_nodes import EngineNodes

Rows = npt.NDArray[np.intp]
Selectors = tuple[Selector, ...]  # alternatives: a row that matches any of them matches


class NodeRows:
    """The rows that match selectors, for one state of the nodes at a time."""

    LIMIT = 16_384

    def __init__(self) -> None:
        self._version: int | None = None
        self._nodes: EngineNodes
        self._rows: dict[Selectors, Rows] = {}
        self._by_label: dict[str, dict[str, Rows]] = {}

    def refresh(self, nodes: EngineNodes) -> None:
        """Look at these nodes from now on, which must be the whole table."""
        if nodes.node_version != self._version or len(self._rows) > self.LIMIT:
            self._rows.clear()
            self._by_label.clear()
        self._version = nodes.node_version
        self._nodes = nodes

    def everything(self) -> Rows:
        return np.arange(len(self._nodes))

    def matching(self, selectors: Selectors) -> Rows:
        rows = self._rows.get(selectors)
        if rows is None:
            rows = self._rows[selectors] = self._find(selectors)
        return rows

    def mask(self, selectors: Selectors) -> BoolArray:
        """Return one boolean per row: whether it matches the selectors."""
        matched = np.zeros(len(self._nodes), np.bool_)
        matched[self.matching(selectors)] = True
        return matched

    def _find(self, selectors: Selectors) -> Rows:
        if len(selectors) == 1:
            requirements = selectors[0].requirements
            if len(requirements) == 1 and requirements[0].operator == IN:
                return self._one_of(requirements[0].key, requirements[0].values)
        matched = np.zeros(len(self._nodes), np.bool_)
        for selector in selectors:
            matched |= match_selector(self._nodes, selector)
        return np.flatnonzero(matched)

    def _one_of(self, key: str, values: Sequence[str]) -> Rows:
        by_value = self._by_label.get(key)
        if by_value is None:
            by_value = self._by_label[key] = self._group(key)
        groups = [by_value[value] for value in values if value in by_value]
        return groups[0] if len(groups) == 1 else np.concatenate([np.empty(0, np.intp), *groups])

    def _group(self, key: str) -> dict[str, Rows]:
        """The rows by their value of a label, in one sort for all values."""
        column = self._nodes.label(key)
        order = np.argsort(column.ids, kind="stable")
        ids = column.ids[order]
        starts = np.flatnonzero(np.diff(ids, prepend=-2))
        groups = np.split(order, starts[1:])
        return {
            column.values[int(ids[start])]: group
            for start, group in zip(starts, groups, strict=False)
            if ids[start] >= 0
        }


def compile_affinity(affinity: VolumeNodeAffinity | None) -> Selectors | None:
    """A volume's node affinity as alternatives; None where it may be used anywhere.

    Only labels count: kube-scheduler shows volumes a node without its name, and a node without fields
    passes any matchFields.
    """
    required: NodeSelector | None = affinity.required if affinity is not None else None
    if required is None:
        return None
    selectors = [compile_node_term(term).selector for term in required.node_selector_terms]
    return tuple(selector for selector in selectors if selector is not NOTHING)
