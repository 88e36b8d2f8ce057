"""What single constraints add to the scores of nodes: a small number for each row, and a table by it.

`table[codes[row]]` is what a constraint adds to a row of the node table. Code 0, for rows without the
constraint's label, adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import BoolArray, Ids, IntArray
from mooring.plugins.pod_topology_spread.constraints import Constraint
from mooring.runtime.engine_nodes import RowCounts

Rows = npt.NDArray[np.intp]


def _weight(domains: int) -> float:
    """Counts in few large domains must not drown those in many small ones."""
    return math.log(domains + 2)


class Contribution:
    """One constraint's part of the scores, over the table as it is since a change of nodes."""

    def __init__(self, constraint: Constraint, counts: RowCounts, size: int) -> None:
        self._skew = constraint.max_skew - 1
        self._counts = counts  # of the pods that the constraint's selector matches
        self._weight = 0.0
        self.stale = True  # whether `table` is older than the weight
        self.codes: Rows = np.zeros(len(counts.counts), np.intp)
        self.table = [0.0] * size
        # What the last update changed: rows that have another code, and codes that add something else.
        # None: perhaps all.
        self.moved: Iterable[int] | None = ()
        self.changed: Iterable[int] | None = ()

    def look(self, rows: Rows, scored: BoolArray | None) -> None:
        """Take in which rows are feasible, and which of them are scored (None: all)."""
        weight = _weight(self._domains(rows, scored))
        if weight != self._weight:
            self._weight, self.stale = weight, True

    def _domains(self, rows: Rows, scored: BoolArray | None) -> int:
        raise NotImplementedError

    def update(self) -> None:
        """Follow what the last refresh of the counts changed."""
        raise NotImplementedError

    def _tabulate(self, counts: IntArray) -> None:
        self.table[1:] = (counts * self._weight + self._skew).tolist()
        self.stale = False
        self.changed = None


class ByDomain(Contribution):
    """A constraint on a label other than the hostname. Codes are the label's values, plus one."""

    def __init__(
        self, constraint: Constraint, counts: RowCounts, label: Ids[str], eligible: BoolArray
    ) -> None:
        ids, values = label
        super().__init__(constraint, counts, len(values) + 1)
        self.codes += ids
        self.codes += 1
        # Nodes without the label and nodes where it is empty are one domain.
        self._blank = values.index("") + 1 if "" in values else 0
        # The code that a row's pods count for; 0 is unused.
        self._counted_for = np.where(eligible, np.where(ids < 0, self._blank, self.codes), 0)
        self._sums = self._add_up()

    def _domains(self, rows: Rows, scored: BoolArray | None) -> int:
        present = np.zeros(len(self.table), np.bool_)
        present[self.codes.take(rows if scored is None else rows[scored])] = True
        if self._blank and present[0]:
            present[self._blank], present[0] = True, False
        return int(np.count_nonzero(present))

    def _add_up(self) -> IntArray:
        return np.bincount(self._counted_for, self._counts.counts, len(self.table)).astype(np.int64)

    def update(self) -> None:
        differences = self._counts.changed
        if differences is None:
            self._sums, self.stale = self._add_up(), True
        else:
            self.changed = [self._count(row, difference) for row, difference in differences.items()]
        if self.stale:
            self._tabulate(self._sums[1:])

    def _count(self, row: int, difference: int) -> int:
        """Count pods that came or went; the code that they count for."""
        code: int = self._counted_for.item(row)
        if code:
            count = self._sums.item(code) + difference
            self._sums[code] = count
            self.table[code] = count * self._weight + self._skew
        return code


class ByHost(Contribution):
    """A constraint on the hostname: each node is taken for a domain, whatever the label's value.

    Codes are the numbers of matching pods on the nodes, plus one.
    """

    def __init__(self, constraint: Constraint, counts: RowCounts, label: Ids[str]) -> None:
        super().__init__(constraint, counts, 0)
        self._labelled = label.ids >= 0
        self._load()

    def _domains(self, rows: Rows, scored: BoolArray | None) -> int:
        return len(rows) if scored is None else int(np.count_nonzero(scored))

    def update(self) -> None:
        self.moved, self.changed = self._counts.changed, ()
        if self.moved is None:
            self._load()
        else:
            self._follow(self.moved)
        if self.stale:
            self._tabulate(np.arange(len(self.table) - 1))

    def _load(self) -> None:
        self.codes = np.where(self._labelled, self._counts.counts + 1, 0)
        self._make_room(int(self.codes.max(initial=0)))

    def _follow(self, rows: Iterable[int]) -> None:
        for row in rows:
            if self._labelled.item(row):
                code = self._counts.counts.item(row) + 1
                self.codes[row] = code
                self._make_room(code)

    def _make_room(self, code: int) -> None:
        if code >= len(self.table):
            self.table += [0.0] * (2 * code + 2 - len(self.table))
            self.stale = True
