"""Soft constraints (ScheduleAnyway): nodes in domains with fewer matching pods score higher.

What a constraint adds to a node's score follows from a small number: the node's domain, or for hostnames
how many matching pods the node has. Scores are worked out for each combination of these (a cell), of which
there are few, and then looked up for the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mooring.framework.arithmetic import MAX_SCORE, round_half_away
from mooring.framework.nodes import BoolArray, IntArray, Nodes
from mooring.framework.pod import Shape
from mooring.plugins.topology_spread.constraints import HOSTNAME, Constraint
from mooring.plugins.topology_spread.eligibility import Eligibility

FloatArray = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


class SoftSpread:
    """The soft constraints of one pod shape, with what is known about them as of the last call.

    With `require_all`, nodes that lack one of the topology keys are ignored: not counted, and scored 0.
    """

    def __init__(self, constraints: Sequence[Constraint], shape: Shape, require_all: bool) -> None:
        self.constraints = constraints
        self._shape = shape
        self._require_all = require_all
        self._node_version: int | None = None
        self._parts: list[_ByDomain | _ByHost] = []
        self._all_rows: Rows = np.zeros(0, np.intp)
        self._having_all: BoolArray | None = None  # None: every row is scored
        self._rows: Rows | None = None  # the rows being scored
        self._ignored: BoolArray | None = None  # those of them that are not; None: no one
        self._cells: IntArray = np.zeros(0, np.int64)
        self._cell_of: Rows | None = None  # None: each row is a cell
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
            _ByHost(c, self._shape, whole)
            if c.topology_key == HOSTNAME
            else _ByDomain(c, self._shape, whole, eligibility.included(c, everywhere))
            for c in self.constraints
        ]
        self._node_version = whole.node_version
        self._all_rows = whole.rows
        self._rows = None

    # ---- score and normalize_score

    def score(self, nodes: Nodes) -> IntArray:
        """The raw scores of the rows looked at; the same object until something changes."""
        changed = [part.update(nodes) for part in self._parts]
        if self._raw is None or any(changed):
            self._raw = self._score()
            self._normalized = None
        return self._raw

    def _score(self) -> IntArray:
        first, *more = self._parts
        if math.prod([len(part.table) for part in self._parts]) <= len(first.codes):
            total, cell_of = first.table, first.codes
            for part in more:  # in the pod's order, as floats do not add up the same in another
                total = np.add.outer(total, part.table).ravel()
                cell_of = cell_of * len(part.table) + part.codes
            self._cells, self._cell_of = round_half_away(total), cell_of
            raw = self._cells.take(cell_of)
        else:
            total = first.table.take(first.codes)
            for part in more:
                total = total + part.table.take(part.codes)
            self._cells = raw = round_half_away(total)
            self._cell_of = None
        if self._ignored is not None:
            raw[self._ignored] = 0
        return raw

    def normalize(self, scores: IntArray) -> IntArray:
        """0 to 100, where fewer is better; ignored rows get 0."""
        if scores is not self._raw:
            return self._normalize(scores, scores, None)
        if self._normalized is None:
            self._normalized = self._normalize(scores, self._cells, self._cell_of)
        return self._normalized

    def _normalize(self, scores: IntArray, cells: IntArray, cell_of: Rows | None) -> IntArray:
        ignored = self._ignored
        counted = scores if ignored is None else scores[~ignored]
        if not len(counted):
            return np.zeros_like(scores)
        lowest, highest = int(np.minimum.reduce(counted)), int(np.maximum.reduce(counted))
        if highest == 0:
            normalized = np.full_like(scores, MAX_SCORE)
        else:
            normalized = (highest + lowest - cells) * MAX_SCORE // highest
            if cell_of is not None:
                normalized = normalized.take(cell_of)
        if ignored is not None:
            normalized[ignored] = 0
        return normalized


def _weight(domains: int) -> float:
    """Counts in few large domains must not drown those in many small ones."""
    return math.log(domains + 2)


class _ByDomain:
    """One constraint on a label other than the hostname: `table[codes[i]]` is what it adds to row i."""

    def __init__(self, constraint: Constraint, shape: Shape, whole: Nodes, eligible: BoolArray) -> None:
        self._max_skew = constraint.max_skew
        self._predicate = constraint.counted(shape.namespace)
        ids, values = whole.label(constraint.topology_key)
        self._sums = whole.domain_sums(self._predicate, constraint.topology_key, eligible)
        # By label value; rows without the label have the code after the last, which adds nothing.
        self._all_codes = np.where(ids < 0, len(self._sums.sums), ids).astype(np.intp)
        # Nodes without the label and nodes where it is empty are one domain.
        self._blank = values.index("") if "" in values else None
        unlabelled = eligible & (ids < 0)
        self._joined = unlabelled if self._blank is not None and unlabelled.any() else None
        self._weight = 0.0
        self._stale = True
        self.codes = self._all_codes
        self.table: FloatArray = np.zeros(len(self._sums.sums) + 1)

    def look(self, rows: Rows, scored: BoolArray | None) -> None:
        self.codes = self._all_codes.take(rows)
        present = np.zeros(len(self.table), np.bool_)
        present[self.codes if scored is None else self.codes[scored]] = True
        if self._blank is not None and present[-1]:
            present[self._blank], present[-1] = True, False
        weight = _weight(int(np.count_nonzero(present)))
        if weight != self._weight:
            self._weight, self._stale = weight, True

    def update(self, nodes: Nodes) -> bool:
        """Bring `table` up to date; whether it changed."""
        changed = self._sums.refresh()
        if not (changed or self._stale or self._joined is not None):
            return False
        counts = self._sums.sums
        if self._joined is not None:
            counts = counts.copy()
            counts[self._blank] += nodes.whole.count(self._predicate)[self._joined].sum()
        scores = self.table[:-1]
        np.multiply(counts, self._weight, out=scores)
        scores += self._max_skew - 1
        self._stale = False
        return True


class _ByHost:
    """One constraint on the hostname: each node is taken for a domain, whatever the label's value."""

    def __init__(self, constraint: Constraint, shape: Shape, whole: Nodes) -> None:
        self._max_skew = constraint.max_skew
        self._predicate = constraint.counted(shape.namespace)
        self._all_labelled = whole.label(constraint.topology_key).ids >= 0
        self._labelled: BoolArray | None = None  # None: all rows are
        self._weight = 0.0
        self._counts: IntArray | None = None
        self.codes: Rows = np.zeros(0, np.intp)
        self.table: FloatArray = np.zeros(0)

    def look(self, rows: Rows, scored: BoolArray | None) -> None:
        labelled = self._all_labelled.take(rows)
        self._labelled = None if labelled.all() else labelled
        self._weight = _weight(len(rows) if scored is None else int(np.count_nonzero(scored)))
        self._counts = None

    def update(self, nodes: Nodes) -> bool:
        """Bring `table`, by number of pods, and `codes` up to date; whether they changed."""
        counts = nodes.count(self._predicate)
        if self._counts is not None and np.array_equal(counts, self._counts):
            return False
        self._counts = self.codes = counts.copy()  # the table's own column may have come
        most = int(np.maximum.reduce(counts, initial=0))
        self.table = np.arange(most + 2, dtype=np.float64)
        self.table *= self._weight
        self.table += self._max_skew - 1
        self.table[-1] = 0.0
        if self._labelled is not None:
            self.codes = np.where(self._labelled, counts, most + 1)
        return True
