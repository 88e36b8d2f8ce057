"""What single constraints add to the scores of nodes: a small number for each row, and a table by it.

`table[codes[row]]` is what a constraint adds to a row of the node table. Code 0, for rows without the
constraint's label, adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import BoolArray, IntArray, Mark, Nodes
from mooring.framework.pod import Shape
from mooring.plugins.topology_spread.constraints import Constraint

FloatArray = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_FEW = 8  # changed rows up to which it pays to look at each


def _weight(domains: int) -> float:
    """Counts in few large domains must not drown those in many small ones."""
    return math.log(domains + 2)


class Contribution:
    """One constraint's part of the scores, over the table as it is since a change of nodes."""

    def __init__(self, constraint: Constraint, shape: Shape, whole: Nodes, size: int) -> None:
        self._max_skew = constraint.max_skew
        self._predicate = constraint.counted(shape.namespace)
        self._weight = 0.0
        self._stale = True  # whether `table` is older than the weight
        self.codes: Rows = np.zeros(len(whole), np.intp)
        self.table: FloatArray = np.zeros(size)
        self.moved: list[int] | None = None  # rows whose code the last update changed; None: perhaps all

    def look(self, rows: Rows, scored: BoolArray | None) -> None:
        """Take in which rows are feasible, and which of them are scored (None: all)."""
        weight = _weight(self._domains(rows, scored))
        if weight != self._weight:
            self._weight, self._stale = weight, True

    def _domains(self, rows: Rows, scored: BoolArray | None) -> int:
        raise NotImplementedError

    def update(self, nodes: Nodes) -> bool:
        """Bring `codes` and `table` up to date with the pods; whether anything changed."""
        raise NotImplementedError

    def _tabulate(self, counts: IntArray) -> None:
        scores = self.table[1:]
        np.multiply(counts, self._weight, out=scores)
        scores += self._max_skew - 1
        self._stale = False


class ByDomain(Contribution):
    """A constraint on a label other than the hostname. Codes are the label's values."""

    def __init__(self, constraint: Constraint, shape: Shape, whole: Nodes, eligible: BoolArray) -> None:
        ids, values = whole.label(constraint.topology_key)
        super().__init__(constraint, shape, whole, len(values) + 1)
        self.codes += ids
        self.codes += 1
        self.moved = []
        self._sums = whole.domain_sums(self._predicate, constraint.topology_key, eligible)
        # Nodes without the label and nodes where it is empty are one domain.
        self._blank = values.index("") if "" in values else None
        unlabelled = eligible & (ids < 0)
        self._joined = unlabelled if self._blank is not None and unlabelled.any() else None

    def _domains(self, rows: Rows, scored: BoolArray | None) -> int:
        present = np.zeros(len(self.table), np.bool_)
        present[self.codes.take(rows if scored is None else rows[scored])] = True
        if self._blank is not None and present[0]:
            present[self._blank + 1], present[0] = True, False
        return int(np.count_nonzero(present))

    def update(self, nodes: Nodes) -> bool:
        changed = self._sums.refresh()
        if not (changed or self._stale or self._joined is not None):
            return False
        counts = self._sums.sums
        if self._joined is not None:
            counts = counts.copy()
            counts[self._blank] += nodes.whole.count(self._predicate)[self._joined].sum()
        self._tabulate(counts)
        return True


class ByHost(Contribution):
    """A constraint on the hostname: each node is taken for a domain, whatever the label's value.

    Codes are the numbers of matching pods on the nodes, plus one.
    """

    def __init__(self, constraint: Constraint, shape: Shape, whole: Nodes) -> None:
        super().__init__(constraint, shape, whole, 0)
        self._labelled = whole.label(constraint.topology_key).ids >= 0
        self._mark: Mark | None = None

    def _domains(self, rows: Rows, scored: BoolArray | None) -> int:
        return len(rows) if scored is None else int(np.count_nonzero(scored))

    def update(self, nodes: Nodes) -> bool:
        since, self._mark = self._mark, nodes.mark
        rows = None if since is None else nodes.changed_since(since)[1]
        if rows is None or len(rows) > _FEW:
            self._load(nodes)
        elif rows:
            self._load_few(nodes, rows)
        else:
            self.moved = []
        if self._stale:
            self._tabulate(np.arange(len(self.table) - 1))
            return True
        return self.moved is None or bool(self.moved)

    def _load(self, nodes: Nodes) -> None:
        self.codes = np.where(self._labelled, nodes.whole.count(self._predicate) + 1, 0)
        self.moved = None
        self._make_room(int(self.codes.max(initial=0)))

    def _load_few(self, nodes: Nodes, rows: Iterable[int]) -> None:
        counts, codes = nodes.whole.count(self._predicate), self.codes
        self.moved = []
        for row in rows:
            code = counts.item(row) + 1 if self._labelled.item(row) else 0
            if code != codes.item(row):
                codes[row] = code
                self.moved.append(row)
                self._make_room(code)

    def _make_room(self, code: int) -> None:
        if code >= len(self.table):
            self.table = np.zeros(2 * code + 2)
            self._stale = True
