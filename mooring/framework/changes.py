"""Which rows of the node table must be looked at again.

What the filters and scores say about every node is kept from cycle to cycle for each pod shape (see
`filtering` and `scoring`), one column over all rows per plugin. A plugin that depends on the node, or on the
node and its pods, is asked again only about rows that changed since; one that depends on anything is asked
every time, and tells by returning the very same array that nothing has changed. The combined answer is then
brought up to date on the changed rows alone. The result is exactly what asking everything anew would give:
the tests compare the two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import Depends, Mark, Nodes

Rows = slice | npt.NDArray[np.intp]
EVERY = slice(None)


class Changes:
    """The rows to look at again since a mark: those whose Node changed, and those where anything did.
    None: no row. The views of them are made once, for all plugins that are asked."""

    __slots__ = ("_nodes", "_view", "any", "node", "since")

    def __init__(self, nodes: Nodes, since: Mark | None) -> None:
        length = len(nodes)
        self.since = since
        self.node: Rows | None = EVERY
        self.any: Rows | None = EVERY
        self._nodes = nodes
        self._view: Nodes | None = None
        if since is not None and since.length == length:
            node_rows, pod_rows = nodes.changed_since(since)
            if node_rows is not None:
                self.node = rows_of(node_rows, length)
                if pod_rows is not None:
                    self.any = rows_of(node_rows + pod_rows if node_rows else pod_rows, length)

    def of(self, depends: Depends) -> Rows | None:
        """The rows to ask a plugin about again."""
        if depends is Depends.PODS:
            return self.any
        if depends is Depends.NODES and self.node is not None:
            return EVERY
        return self.node

    def view(self, rows: Rows) -> Nodes:
        """The nodes at `node` or `any`."""
        if rows is EVERY:
            return self._nodes
        if rows is not self.any:
            return self._nodes.take(rows)
        if self._view is None:
            self._view = self._nodes.take(rows)
        return self._view

    def everything(self) -> None:
        """Look at every row after all."""
        self.node = self.any = EVERY


def rows_of(changed: list[int], length: int) -> Rows | None:
    """Changed rows as an index: nothing, one row (a slice, which copies nothing), some, or every row."""
    if not changed:
        return None
    first = changed[0]
    if len(changed) == 1 or (len(changed) < 8 and all(row == first for row in changed)):
        return slice(first, first + 1)
    distinct = changed if len(changed) * 3 <= length else list(set(changed))
    return EVERY if len(distinct) * 3 > length else np.array(distinct, np.intp)
