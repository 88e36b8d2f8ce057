"""Views of the node table: the `Nodes` that plugins get.

A NodeView shows rows as they are. A WhatIf shows them as they would be with some pods added or removed,
for many nodes at once: each row has a list of pods that may or may not be there, and `set_present` switches
the j-th pod of chosen rows on or off. Preemption tries all candidate nodes together with it; nominated
pods appear on their nodes through it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mooring.api.objects import Taint
from mooring.framework.affinity import AffinityTerm
from mooring.framework.nodes import BoolArray, Ids, IntArray, PodPredicate
from mooring.framework.pod import PodInfo, Shape
from mooring.runtime.amounts import ALLOWED_PODS, NONZERO, pods_line
from mooring.runtime.engine_nodes import EngineNode, Mark
from mooring.state.counters import TableDomainSums, TableRowCounts
from mooring.state.node_info import HypotheticalNode
from mooring.state.sparse import Amount, plus
from mooring.state.table import NodeTable

Rows = slice | npt.NDArray[np.intp]

_NO_ROWS = array("q")


class Amounts:
    """Amounts by resource name over the rows of a view."""

    __slots__ = ("_index", "_sparse", "matrix")

    def __init__(self, index: dict[str, int], matrix: IntArray, sparse: Callable[[str], IntArray]) -> None:
        self._index = index
        self.matrix = matrix
        self._sparse = sparse  # those of resources without a line

    def __getitem__(self, resource: str) -> IntArray:
        line = self._index.get(resource)
        return self._sparse(resource) if line is None else self.matrix[line]


class NodeView:
    """Some rows of the table, as they are. With a slice of rows the columns are not copied."""

    hypothetical = False

    def __init__(self, table: NodeTable, rows: Rows) -> None:
        self.table = table
        self._rows = rows
        self.length: int = rows.stop - rows.start if isinstance(rows, slice) else len(rows)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> EngineNode:
        rows = self._rows
        return self.table.nodes[rows.start + i if isinstance(rows, slice) else rows.item(i)]

    def __iter__(self) -> Iterator[EngineNode]:
        return (self[i] for i in range(len(self)))

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        rows = self._rows
        return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows

    @property
    def whole(self) -> NodeView:
        return self if self.is_whole else NodeView(self.table, slice(0, len(self.table)))

    @property
    def is_whole(self) -> bool:
        """Whether this is the whole table as it is, rows in order."""
        rows = self._rows
        return isinstance(rows, slice) and rows.start == 0 and rows.stop == len(self.table)

    def take(self, rows: Rows) -> NodeView:
        """A view of other rows of the same table."""
        return NodeView(self.table, rows) if isinstance(rows, slice) else CopiedView(self.table, rows)

    def where(self, mask: BoolArray) -> NodeView:
        """The rows where a whole-table mask is true; the whole table where it is true everywhere."""
        count = int(np.count_nonzero(mask))
        if count == len(mask):
            return self.whole
        return MaskedView(self.table, mask, count)

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
        positions = np.flatnonzero(rows == row)
        return int(positions[0]) if len(positions) else None

    @property
    def mark(self) -> Mark:
        table = self.table
        return Mark(table.node_log.position, table.pod_log.position, len(table.nodes))

    def changed_since(self, mark: Mark) -> tuple[array[int] | None, array[int] | None]:
        table = self.table
        pods = table.pod_log.since(mark.pods)
        if mark.nodes == table.node_log.position:
            return _NO_ROWS, pods
        nodes = table.node_log.since(mark.nodes)
        if nodes:  # perhaps of nodes that are gone, and with them the last rows
            length = len(table)
            nodes = array("q", [row for row in nodes if row < length])
            pods = None if pods is None else array("q", [row for row in pods if row < length])
        return nodes, pods

    def changes(self, i: int) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        return (), ()

    def part(self, keep: npt.NDArray[np.intp]) -> NodeView:
        return NodeView(self.table, self.rows[keep])

    def what_if(
        self,
        rows: npt.NDArray[np.intp],
        removable: Sequence[Sequence[PodInfo]],
        addable: Sequence[Sequence[PodInfo]],
    ) -> WhatIf:
        return WhatIf(self.table, rows, removable, addable)

    @property
    def node_version(self) -> int:
        return self.table.node_version

    @property
    def carried_terms(self) -> Sequence[AffinityTerm]:
        return self.table.carried_terms

    # ---- amounts

    @property
    def resources(self) -> Sequence[str]:
        return self.table.resources

    @property
    def amounts(self) -> IntArray:
        return self.table.amounts.data[:, self._rows]

    @property
    def allocatable(self) -> Amounts:
        amounts = self.amounts
        matrix = amounts[ALLOWED_PODS + 1 : pods_line(len(amounts))]
        return Amounts(self.table.resource_index, matrix, lambda name: self._sparse(name)[0])

    @property
    def requested(self) -> Amounts:
        amounts = self.amounts
        matrix = amounts[pods_line(len(amounts)) + 1 : -2]
        return Amounts(self.table.resource_index, matrix, lambda name: self._sparse(name)[1])

    @property
    def room(self) -> IntArray:
        amounts = self.amounts
        half = len(amounts) // 2 - 1  # `pods_line`
        return amounts[:half] - amounts[half:-2]

    @property
    def free(self) -> Amounts:
        return Amounts(self.table.resource_index, self.room[1:], self._sparse_free)

    def _sparse_free(self, name: str) -> IntArray:
        allocatable, requested = self._sparse(name)
        free: IntArray = allocatable - requested
        return free

    def _sparse(self, name: str) -> IntArray:
        """What the rows have, and what their pods take, of a resource without a line in the table."""
        lines: IntArray = self.table.sparse.lines(name, len(self.table))[:, self._rows]
        return lines

    @property
    def nonzero_requested(self) -> IntArray:
        return self.amounts[NONZERO]

    @property
    def pod_count(self) -> IntArray:
        amounts = self.amounts
        counts: IntArray = amounts[pods_line(len(amounts))]
        return counts

    @property
    def allowed_pods(self) -> IntArray:
        allowed: IntArray = self.amounts[ALLOWED_PODS]
        return allowed

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

    def row_counts(self, predicate: PodPredicate) -> TableRowCounts:
        return self.table.row_counts(predicate)

    def domain_sums(
        self, predicate: PodPredicate, key: str, eligible: BoolArray | None = None
    ) -> TableDomainSums:
        return self.table.domain_sums(predicate, key, eligible)


class CopiedView(NodeView):
    """Rows picked for one question: their amounts are copied once, however many plugins look at them."""

    __slots__ = ("amounts",)

    def __init__(self, table: NodeTable, rows: npt.NDArray[np.intp]) -> None:
        self.table = table
        self._rows = rows
        self.length = len(rows)
        self.amounts: IntArray = table.amounts.data.take(rows, axis=1)


class MaskedView(NodeView):
    """The rows where a mask is true, looked up when they are first needed: often only their number is."""

    def __init__(self, table: NodeTable, mask: BoolArray, count: int) -> None:
        self.table = table
        self._mask = mask
        self.length = count

    def __getattr__(self, name: str) -> Rows:
        if name != "_rows":
            raise AttributeError(name)
        self._rows = np.flatnonzero(self._mask)
        return self._rows


class WhatIf(NodeView):
    """`removable[k]` are pods that are on row k now, `addable[k]` pods that are not; all start as they are
    in the table, so that the view begins as the plain truth."""

    hypothetical = True

    def __init__(
        self,
        table: NodeTable,
        rows: npt.NDArray[np.intp],
        removable: Sequence[Sequence[PodInfo]],
        addable: Sequence[Sequence[PodInfo]],
    ) -> None:
        super().__init__(table, rows)
        self.pods = [[*r, *a] for r, a in zip(removable, addable, strict=True)]
        width = max((len(pods) for pods in self.pods), default=0)
        shapes: dict[Shape | None, int] = {None: 0}  # index 0 pads the short rows
        self._shape_ids = np.zeros((len(rows), width), np.intp)
        self._there = np.zeros((len(rows), width), np.bool_)
        for k, pods in enumerate(self.pods):
            self._shape_ids[k, : len(pods)] = [shapes.setdefault(p.shape, len(shapes)) for p in pods]
            self._there[k, : len(removable[k])] = True
        self._shapes: list[Shape] = [shape for shape in shapes if shape is not None]
        for shape in self._shapes:
            table.carry(shape)
        vectors = [table.footprint(shape).vector for shape in self._shapes]
        blank = np.zeros(len(table.amounts.data), np.int64)
        self._vectors = np.stack([blank, *vectors], axis=1)
        self.present = self._there.copy()
        self._amounts: IntArray = table.amounts.data.take(rows, axis=1)

    @property
    def width(self) -> int:
        return self.present.shape[1]

    def has(self, j: int) -> BoolArray:
        """The rows that have a j-th pod."""
        mask: BoolArray = self._shape_ids[:, j] != 0
        return mask

    def set_present(self, j: int, rows: BoolArray, present: bool) -> None:
        """Switch the j-th pod of the chosen rows on or off."""
        ids = self._shape_ids[:, j]
        change = (rows & (self.present[:, j] != present) & (ids != 0)).nonzero()[0]
        if len(change):
            vectors = self._vectors[:, ids[change]]
            self._amounts[:, change] += vectors if present else -vectors
            self.present[change, j] = present

    def set_all_present(self, which: BoolArray, present: bool) -> None:
        """Switch the chosen pods on or off: one line per row, one column per position."""
        change = which & (self.present != present) & (self._shape_ids != 0)
        vectors = self._vectors[:, np.where(change, self._shape_ids, 0)].sum(axis=2)
        self._amounts += vectors if present else -vectors
        self.present[change] = present

    @property
    def amounts(self) -> IntArray:
        return self._amounts

    def part(self, keep: npt.NDArray[np.intp]) -> WhatIf:
        """Return this view of some of the rows."""
        part = WhatIf.__new__(WhatIf)
        NodeView.__init__(part, self.table, self.rows[keep])
        part.pods = [self.pods[k] for k in keep]
        part._shapes, part._vectors = self._shapes, self._vectors
        part._shape_ids, part._there = self._shape_ids[keep], self._there[keep]
        part.present, part._amounts = self.present[keep], self._amounts.take(keep, axis=1)
        return part

    def _sparse(self, name: str) -> IntArray:
        lines = super()._sparse(name)
        taken = [self.table.footprint(shape).sparse.get(name, 0) for shape in self._shapes]
        if any(taken):
            lines[1] += self._difference(self._by_pod(taken))
        return lines

    def _sparse_on(self, i: int) -> dict[str, Amount]:
        """The amounts of resources without lines on row i."""
        amounts = dict(self.table.nodes[self.rows[i]].sparse)
        for pods, sign in zip(self.changes(i), (-1, 1), strict=True):
            for pod in pods:
                plus(amounts, self.table.footprint(pod.shape).sparse, sign)
        return amounts

    def _matching(self, predicate: PodPredicate) -> IntArray:
        return self._by_pod([predicate.matches(shape) for shape in self._shapes])

    def _by_pod(self, by_shape: Sequence[int]) -> IntArray:
        """A number of each pod, in the layout of `present`."""
        numbers: IntArray = np.array([0, *by_shape], np.int64)[self._shape_ids]
        return numbers

    def delta(self, predicate: PodPredicate) -> IntArray:
        return self._difference(self._matching(predicate))

    def _difference(self, matching: IntArray) -> IntArray:
        now: IntArray = (matching * self.present).sum(axis=1)
        real: IntArray = (matching * self._there).sum(axis=1)
        return now - real

    def count(self, predicate: PodPredicate) -> IntArray:
        matching = self._matching(predicate)
        if not predicate.count_terminating:
            for k, pods in enumerate(self.pods):
                matching[k, : len(pods)][[pod.terminating for pod in pods]] = 0
        return super().count(predicate) + self._difference(matching)

    def __getitem__(self, i: int) -> EngineNode:
        real = self.table.nodes[self.rows[i]]
        mine = self.pods[i]
        uids = {pod.uid for pod in mine}
        pods = [pod for pod in real.pods if pod.uid not in uids]
        pods += [pod for pod, present in zip(mine, self.present[i], strict=False) if present]
        return HypotheticalNode(real, pods, tuple(self._amounts[:, i].tolist()), self._sparse_on(i))

    def changes(self, i: int) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """The pods that are not there but really are, and those that are there but really are not."""
        removed, added = [], []
        for pod, there, present in zip(self.pods[i], self._there[i], self.present[i], strict=False):
            if there and not present:
                removed.append(pod)
            elif present and not there:
                added.append(pod)
        return removed, added
