"""Which rows of the node table must be looked at again.

Answers of filters and scores are cached from cycle to cycle by pod shape (see `filtering` and `scoring`), one
column over all rows per plugin. A plugin whose cache key is the node, or the node and its pods, is called
again only for rows that changed since; one whose key is the resources, only for resources that it has not
been called with; one without a key is called every time, and returns the very same array if nothing
has changed. The combined answer is then updated on the changed rows alone. The result equals that of calling
every plugin for every row; tests compare the two.
"""

from __future__ import annotations

from array import array
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mooring.framework.cache_key import CacheKey
from mooring.runtime.engine_nodes import EngineNodes, Mark

T = TypeVar("T")
V = TypeVar("V", bound=np.generic)

# An index of the table: every row, many rows, or a few, where it pays to look at each by itself.
Rows = slice | npt.NDArray[np.intp] | list[int]
EVERY = slice(None)
FEW = 8


class Changes:
    """The rows to look at again since a mark: those whose Node changed, and those where anything did.
    None: no row. The view of them is made once, for all plugins that are asked."""

    __slots__ = ("_amounts", "_view", "any", "node", "nodes", "since", "until")

    def __init__(self, nodes: EngineNodes, since: Mark | None) -> None:
        self.nodes = nodes
        self.since = since
        self.until = until = nodes.mark
        self.node: Rows | None = EVERY
        self.any: Rows | None = EVERY
        self._view: EngineNodes | None = None
        self._amounts: list[tuple[int, ...] | None] | None = None
        if since is not None and since.length == until.length:
            node_rows, pod_rows = nodes.changed_since(since)
            if node_rows is not None:
                self.node = rows_of(node_rows, until.length) if node_rows else None
                if pod_rows is not None:
                    self.any = rows_of(node_rows + pod_rows if node_rows else pod_rows, until.length)

    def of(self, cache_key: CacheKey) -> Rows | None:
        """The rows to ask a plugin about again."""
        if cache_key is CacheKey.NODE_AND_PODS or cache_key is CacheKey.RESOURCES:
            return self.any
        if cache_key is CacheKey.ALL_NODES and self.node is not None:
            return EVERY
        return self.node

    def view(self, rows: Rows) -> EngineNodes:
        """The nodes at `node` or `any`."""
        if rows is EVERY:
            return self.nodes
        if rows is self.any and self._view is not None:
            return self._view
        view = self.nodes.take(_index(rows) if isinstance(rows, list) else rows)
        if rows is self.any:
            self._view = view
        return view

    def amounts(self, rows: list[int]) -> list[tuple[int, ...] | None]:
        """The amounts of the nodes at `any`, if they are few; None for one with more than these."""
        if self._amounts is None:
            nodes = [self.nodes[row] for row in rows]
            self._amounts = [None if node.sparse else node.amounts for node in nodes]
        return self._amounts

    def everything(self) -> None:
        """Look at every row after all."""
        self.node = self.any = EVERY


def rows_of(changed: array[int], length: int) -> Rows | None:
    """Changed rows as an index, or None if there are none."""
    count = len(changed)
    if count <= 1:
        return changed.tolist() or None
    if count <= FEW or count * 3 > length:
        distinct = list(dict.fromkeys(changed))
        if len(distinct) <= FEW:
            return distinct
        return EVERY if len(distinct) * 3 > length else np.array(distinct, np.intp)
    return np.frombuffer(changed, np.intp)


def few_or_many(rows: npt.NDArray[np.intp]) -> Rows:
    return rows.tolist() if len(rows) <= FEW else rows


def _index(rows: list[int]) -> slice | npt.NDArray[np.intp]:
    return slice(rows[0], rows[0] + 1) if len(rows) == 1 else np.array(rows, np.intp)


def pick(columns: npt.NDArray[V], rows: Rows) -> npt.NDArray[V]:
    """Some rows of a column, or of several in lines."""
    return columns[..., rows] if isinstance(rows, slice) else columns.take(rows, axis=-1)


class ByAmounts(dict[tuple[int, ...], T]):
    """Answers for nodes of one size that are equally full, of which a cluster has many."""

    __slots__ = ()
    LIMIT = 2048

    def keep(self, amounts: tuple[int, ...] | None, answer: T) -> T:
        if amounts is None:
            return answer
        if len(self) >= self.LIMIT:
            self.clear()
        self[amounts] = answer
        return answer
