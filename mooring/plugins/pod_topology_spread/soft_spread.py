"""Soft constraints (ScheduleAnyway): nodes in domains with fewer matching pods score higher."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.framework.nodes import BoolArray, IntArray, PodPredicate
from mooring.framework.pod import Shape
from mooring.plugins.pod_topology_spread.cells import UNSCORED, Cells, inverted
from mooring.plugins.pod_topology_spread.constraints import HOSTNAME, Constraint
from mooring.plugins.pod_topology_spread.contributions import ByDomain, ByHost, Contribution, Rows
from mooring.plugins.pod_topology_spread.eligibility import Eligibility
from mooring.runtime.engine_nodes import EngineNodes, RowCounts
from mooring.runtime.groups import Groups


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
        self._counts: dict[PodPredicate, RowCounts] = {}
        self._parts: list[Contribution] = []
        self._cells = Cells((), 0, None)
        self._rows: Rows | None = None  # the rows being scored
        self._groups: Groups | None = None  # None: to be worked out
        self._raw: IntArray | None = None

    # ---- pre_score

    def look(self, nodes: EngineNodes) -> None:
        """Take in which rows are feasible: a constraint's weight follows from how many domains they span."""
        whole = nodes.whole
        if self._node_version != whole.node_version:
            self._start(whole)
        rows = self._all_rows if nodes is whole else nodes.rows
        if self._rows is rows or (self._rows is not None and np.array_equal(rows, self._rows)):
            return
        self._rows, self._groups, self._raw = rows, None, None
        scored = None if self._having_all is None else self._having_all.take(rows)
        for part in self._parts:
            part.look(rows, scored)
        self._cells.look(rows)

    def _start(self, whole: EngineNodes) -> None:
        eligibility = Eligibility(whole, self._shape)
        everywhere = np.ones(len(whole), np.bool_)
        self._having_all = None
        constraints = self.constraints
        if self._require_all:
            self._having_all = everywhere = eligibility.having(c.topology_key for c in constraints)
            if not everywhere.any():
                constraints = ()  # no row is scored
        predicates = [c.counted(self._shape.namespace) for c in constraints]
        self._counts = {predicate: whole.row_counts(predicate) for predicate in predicates}
        self._parts = []
        for constraint, predicate in zip(constraints, predicates, strict=True):
            counts, label = self._counts[predicate], whole.label(constraint.topology_key)
            if constraint.topology_key == HOSTNAME:
                self._parts.append(ByHost(constraint, counts, label))
            else:
                eligible = eligibility.included(constraint, everywhere)
                self._parts.append(ByDomain(constraint, counts, label, eligible))
        self._cells = Cells(self._parts, len(whole), self._having_all)
        self._node_version = whole.node_version
        self._all_rows = whole.rows
        self._rows = None

    # ---- score and normalize_score

    def groups(self) -> Groups:
        """The scores of the rows looked at; the same object until something changes."""
        self._update()
        if self._groups is None:
            cells = self._cells
            self._groups = Groups(cells.of, cells.scores, cells.normalized())
        return self._groups

    def score(self) -> IntArray:
        """The raw scores of the rows looked at; the same object until something changes."""
        self._update()
        if self._raw is None:
            self._raw = self._cells.scores.take(self._of_rows())
        return self._raw

    def normalize(self, scores: IntArray) -> IntArray:
        """0 to 100, where fewer is better; ignored rows get 0. `scores` are those of the rows looked at."""
        scored = self._of_rows() != UNSCORED
        counted = scores[scored]
        if not len(counted):
            return np.zeros_like(scores)
        return np.where(scored, inverted(scores, int(counted.min()), int(counted.max())), 0)

    def _update(self) -> None:
        stale = [counts.refresh() for counts in self._counts.values()]
        stale += [part.stale for part in self._parts]
        if True in stale:
            for part in self._parts:
                part.update()
            self._cells.update()
            self._groups = self._raw = None

    def _of_rows(self) -> Rows:
        of, rows = self._cells.of, self._rows
        return of if rows is None or rows is self._all_rows else of.take(rows)
