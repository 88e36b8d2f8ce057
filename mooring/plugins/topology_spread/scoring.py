"""Soft constraints (ScheduleAnyway): nodes in domains with fewer matching pods score higher.

Each constraint gives a row a small number, and what it adds to the score follows from that. So there are
few different scores: they are worked out for each combination of the numbers, a cell, and then looked up
for the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mooring.framework.arithmetic import MAX_SCORE, round_half_away
from mooring.framework.nodes import BoolArray, IntArray, Nodes
from mooring.framework.pod import Shape
from mooring.plugins.topology_spread.constraints import HOSTNAME, Constraint
from mooring.plugins.topology_spread.contributions import ByDomain, ByHost, Contribution, FloatArray, Rows
from mooring.plugins.topology_spread.eligibility import Eligibility


class SoftSpread:
    """The soft constraints of one pod shape, with what is known about them as of the last call.

    With `require_all`, nodes that lack one of the topology keys are ignored: not counted, and scored 0.
    """

    def __init__(self, constraints: Sequence[Constraint], shape: Shape, require_all: bool) -> None:
        self.constraints = constraints
        self._shape = shape
        self._require_all = require_all
        self._node_version: int | None = None
        self._all_rows: Rows = np.zeros(0, np.intp)
        self._having_all: BoolArray | None = None  # None: every row is scored
        self._parts: list[Contribution] = []
        self._cells = Cells(())
        self._rows: Rows | None = None  # the rows being scored
        self._ignored: BoolArray | None = None  # those of them that are not; None: no one
        self._raw: IntArray | None = None
        self._normalized: IntArray | None = None

    # ---- pre_score

    def look(self, nodes: Nodes) -> None:
        """Take in which rows are feasible: a constraint's weight follows from how many domains they span."""
        whole = nodes.whole
        if self._node_version != whole.node_version:
            self._start(whole)
        rows = self._all_rows if nodes is whole else nodes.rows
        if self._rows is rows or (self._rows is not None and np.array_equal(rows, self._rows)):
            return
        self._rows, self._raw = rows, None
        scored = None if self._having_all is None else self._having_all.take(rows)
        if scored is None or scored.all():
            self._ignored, scored = None, None
        else:
            self._ignored = ~scored
        for part in self._parts:
            part.look(rows, scored)

    def _start(self, whole: Nodes) -> None:
        eligibility = Eligibility(whole, self._shape)
        everywhere = np.ones(len(whole), np.bool_)
        self._having_all = None
        if self._require_all:
            self._having_all = everywhere = eligibility.having(c.topology_key for c in self.constraints)
        self._parts = [
            ByHost(c, self._shape, whole)
            if c.topology_key == HOSTNAME
            else ByDomain(c, self._shape, whole, eligibility.included(c, everywhere))
            for c in self.constraints
        ]
        self._cells = Cells(self._parts)
        self._node_version = whole.node_version
        self._all_rows = whole.rows
        self._rows = None

    # ---- score and normalize_score

    def score(self, nodes: Nodes) -> IntArray:
        """The raw scores of the rows looked at; the same object until something changes."""
        changed = [part.update(nodes) for part in self._parts]
        if any(changed):
            self._cells.update()
        if self._raw is None or any(changed):
            self._raw = self._cells.spread(self._cells.scores, self._asked())
            if self._ignored is not None:
                self._raw[self._ignored] = 0
            self._normalized = None
        return self._raw

    def _asked(self) -> Rows | None:
        return None if self._rows is self._all_rows else self._rows

    def normalize(self, scores: IntArray) -> IntArray:
        """0 to 100, where fewer is better; ignored rows get 0. `scores` is what `score` gave."""
        if self._normalized is None or scores is not self._raw:
            self._normalized = self._normalize(scores)
        return self._normalized

    def _normalize(self, scores: IntArray) -> IntArray:
        ignored = self._ignored
        counted = scores if ignored is None else scores[~ignored]
        if not len(counted):
            return np.zeros_like(scores)
        lowest, highest = int(np.minimum.reduce(counted)), int(np.maximum.reduce(counted))
        if highest == 0:
            normalized = np.full_like(scores, MAX_SCORE)
        else:
            by_cell = (highest + lowest - self._cells.scores) * MAX_SCORE // highest
            normalized = self._cells.spread(by_cell, self._asked())
        if ignored is not None:
            normalized[ignored] = 0
        return normalized


class Cells:
    """The combinations of the parts' codes, and the raw score of each.

    Where there would be more of them than rows, each row is a cell of its own.
    """

    def __init__(self, parts: Sequence[Contribution]) -> None:
        self._parts = parts
        self._sizes: list[int] = []
        self._of: Rows | None = None
        self.scores: IntArray = np.zeros(0, np.int64)

    def update(self) -> None:
        """Work the scores out anew after parts have changed."""
        sizes = [len(part.table) for part in self._parts]
        if math.prod(sizes) > len(self._parts[0].codes):
            self._of = None
            total = self._sum([part.table.take(part.codes) for part in self._parts])
        else:
            self._assign(sizes)
            total = self._sum([part.table for part in self._parts], outer=True)
        self._sizes = sizes
        self.scores = round_half_away(total)

    def _sum(self, addends: list[FloatArray], outer: bool = False) -> FloatArray:
        total = addends[0]
        for addend in addends[1:]:  # in the pod's order, as floats do not add up the same in another
            total = np.add.outer(total, addend).ravel() if outer else total + addend
        return total

    def _assign(self, sizes: list[int]) -> None:
        """Find the cell of each row, or of those whose codes changed."""
        moved = [part.moved for part in self._parts]
        if self._of is None or sizes != self._sizes or None in moved:
            of = self._parts[0].codes
            for part, size in zip(self._parts[1:], sizes[1:], strict=True):
                of = of * size + part.codes
            self._of = of if len(sizes) > 1 else of.copy()
            return
        for row in {row for rows in moved for row in rows or ()}:
            cell = 0
            for part, size in zip(self._parts, sizes, strict=True):
                cell = cell * size + part.codes.item(row)
            self._of[row] = cell

    def spread(self, by_cell: IntArray, rows: Rows | None) -> IntArray:
        """What each of these rows (None: all) finds in its cell."""
        if self._of is None:
            return by_cell.copy() if rows is None else by_cell.take(rows)
        return by_cell.take(self._of if rows is None else self._of.take(rows))
