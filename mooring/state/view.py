"""Views of the node table: the `Nodes` that plugins get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mooring.api.objects import Taint
from mooring.framework.affinity import AffinityTerm
from mooring.framework.nodes import BoolArray, Ids, IntArray, Mark, NodeInfo, PodPredicate
from mooring.framework.pod import PodInfo
from mooring.state.counters import TableDomainSums
from mooring.state.table import NONZERO_CPU, PODS, REQUESTED, NodeTable

Rows = slice | npt.NDArray[np.intp]


class Amounts:
    """Amounts by resource name over the rows of a view."""

    __slots__ = ("_index", "matrix")

    def __init__(self, index: dict[str, int], matrix: IntArray) -> None:
        self._index = index
        self.matrix = matrix

    def __getitem__(self, resource: str) -> IntArray:
        line = self._index.get(resource)
        return np.zeros(self.matrix.shape[1], np.int64) if line is None else self.matrix[line]


class NodeView:
    """Some rows of the table, as they are. With a slice of rows the columns are not copied."""

    def __init__(self, table: NodeTable, rows: Rows) -> None:
        self.table = table
        self._rows = rows

    @cached_property
    def _length(self) -> int:
        rows = self._rows
        return rows.stop - rows.start if isinstance(rows, slice) else len(rows)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, i: int) -> NodeInfo:
        return self.table.nodes[int(self.rows[i])]

    def __iter__(self) -> Iterator[NodeInfo]:
        return (self[i] for i in range(len(self)))

    @cached_property
    def rows(self) -> npt.NDArray[np.intp]:
        rows = self._rows
        return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows

    @property
    def whole(self) -> NodeView:
        return self if self.is_whole else NodeView(self.table, slice(0, len(self.table)))

    @property
    def is_whole(self) -> bool:
        """Whether this is the whole table as it is, rows in order."""
        return isinstance(self._rows, slice) and self._rows == slice(0, len(self.table))

    def take(self, rows: Rows) -> NodeView:
        """A view of other rows of the same table."""
        return NodeView(self.table, rows)

    @property
    def names(self) -> Sequence[str]:
        names = self.table.names
        return names[self._rows] if isinstance(self._rows, slice) else [names[row] for row in self._rows]

    def index(self, name: str) -> int | None:
        row = self.table.row_of.get(name)
        if row is None:
            return None
        rows = self._rows
        if isinstance(rows, slice):
            return row - rows.start if rows.start <= row < rows.stop else None
        found = np.flatnonzero(rows == row)
        return int(found[0]) if len(found) else None

    @property
    def mark(self) -> Mark:
        table = self.table
        return Mark(table.node_log.position, table.pod_log.position, len(table))

    def changed_since(self, mark: Mark) -> tuple[list[int] | None, list[int] | None]:
        return self.table.node_log.since(mark.nodes), self.table.pod_log.since(mark.pods)

    @property
    def hypothetical(self) -> bool:
        return False

    def changes(self, i: int) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        return (), ()

    def part(self, keep: npt.NDArray[np.intp]) -> NodeView:
        return NodeView(self.table, self.rows[keep])

    @property
    def node_version(self) -> int:
        return self.table.node_version

    # ---- amounts

    @property
    def resources(self) -> Sequence[str]:
        return self.table.resources

    @property
    def usage(self) -> IntArray:
        return self.table.usage.data[:, self._rows]

    @property
    def allocatable(self) -> Amounts:
        return Amounts(self.table.resource_index, self.table.allocatable.data[:, self._rows])

    @property
    def requested(self) -> Amounts:
        return Amounts(self.table.resource_index, self.usage[REQUESTED:])

    @property
    def free(self) -> Amounts:
        allocatable = self.table.allocatable.data[:, self._rows]
        return Amounts(self.table.resource_index, allocatable - self.usage[REQUESTED:])

    @property
    def nonzero_requested(self) -> IntArray:
        return self.usage[NONZERO_CPU:REQUESTED]

    @property
    def pod_count(self) -> IntArray:
        counts: IntArray = self.usage[PODS]
        return counts

    @property
    def allowed_pods(self) -> IntArray:
        return self.table.allowed_pods.data[self._rows]

    # ---- content of the Node objects

    @property
    def unschedulable(self) -> BoolArray:
        return self.table.unschedulable.data[self._rows]

    @property
    def taints(self) -> Ids[tuple[Taint, ...]]:
        return Ids(self.table.taints.ids[self._rows], self.table.taints.values)

    @property
    def declared_features(self) -> Ids[frozenset[str]]:
        return Ids(self.table.features.ids[self._rows], self.table.features.values)

    def label(self, key: str) -> Ids[str]:
        column = self.table.label(key)
        return Ids(column.ids[self._rows], column.values)

    def image(self, name: str) -> tuple[BoolArray, int, int]:
        held, size, holders = self.table.images.find(name, len(self.table))
        return held[self._rows], size, holders

    # ---- pods on the rows

    def count(self, predicate: PodPredicate) -> IntArray:
        return self.table.counter(predicate).column.data[self._rows]

    def delta(self, predicate: PodPredicate) -> IntArray | None:
        return None

    def domain_sums(
        self, predicate: PodPredicate, key: str, eligible: BoolArray | None = None
    ) -> TableDomainSums:
        return self.table.domain_sums(predicate, key, eligible)

    @property
    def carried_terms(self) -> Sequence[AffinityTerm]:
        return self.table.carried_terms
