"""What the scores say about every feasible node, kept for a pod shape."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mooring.framework.changes import EVERY, Changes, Rows
from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import BoolArray, Depends, IntArray, Mark, Nodes
from mooring.framework.pod import PodInfo
from mooring.framework.runners import ScoreRunner, outside_range

INFEASIBLE = -1  # the total of a node that did not pass the filters


class ScoreColumn:
    """One plugin's score on each row: raw, and weighted after normalising."""

    __slots__ = ("latest", "raw", "runner", "uniform", "weighted")

    def __init__(self, runner: ScoreRunner, weighted: IntArray) -> None:
        self.runner = runner
        self.raw: IntArray = np.zeros(len(weighted), np.int64)
        self.weighted = weighted  # a line of the matrix of all columns, so that they can be summed at once
        self.latest: IntArray | None = None  # of a plugin that is asked every time
        self.uniform: int | None = None  # the raw score that all rows had when they were last normalised

    def raw_scores(self, rows: list[int]) -> IntArray:
        """What the plugin gave; not kept apart where it is the weighted score but for the weight."""
        return self.raw[rows] if self.runner.normalizes else self.weighted[rows] // self.runner.weight


class Scoring:
    """The scores of a profile over the feasible rows, for one pod shape."""

    def __init__(self, runners: Iterable[ScoreRunner]) -> None:
        self._runners = tuple(runners)
        self._skipped: frozenset[str] | None = None
        self._mark: Mark | None = None
        self._feasible: BoolArray = np.zeros(0, np.bool_)
        self.columns: list[ScoreColumn] = []
        self._matrix: IntArray = np.zeros((0, 0), np.int64)
        self._by_nodes: list[ScoreColumn] = []
        self._by_pods: list[ScoreColumn] = []
        self._by_anything: list[ScoreColumn] = []
        self.total: IntArray = np.zeros(0, np.int64)
        self._best: npt.NDArray[np.intp] | None = None  # None: to be looked for

    def best(self) -> npt.NDArray[np.intp]:
        """The rows with the highest total, in order."""
        if self._best is None:
            total = self.total
            self._best = (total == total.item(int(total.argmax()))).nonzero()[0]
        return self._best

    def _set_total(self, row: int, total: int) -> None:
        """One row's total is new. Where the best rows are known, they are kept up to date."""
        self.total[row] = total
        best = self._best
        if best is None:
            return
        place = int(best.searchsorted(row))
        was_best = place < len(best) and best.item(place) == row
        if was_best and len(best) == 1:
            self._best = None
            return
        highest = self.total.item(best.item(1 if was_best and place == 0 else 0))
        if total > highest:
            self._best = np.array([row], np.intp)
        elif total == highest and not was_best:
            self._best = np.insert(best, place, row)
        elif total < highest and was_best:
            best[place:-1] = best[place + 1 :]
            self._best = best[:-1]

    def refresh(
        self,
        state: CycleState,
        pod: PodInfo,
        nodes: Nodes,
        feasible: BoolArray,
        candidates: Nodes,
        changes: Changes,
    ) -> None:
        """Bring the totals up to date. `candidates` are the feasible rows of `nodes`; `feasible` is a new
        array whenever it differs from the last one; `changes` is what filtering saw."""
        if changes.since != self._mark:  # not scored in the last cycle
            changes = Changes(nodes, self._mark)
        self._mark = None
        if self._skipped != state.skip_score or changes.any is EVERY:
            self._start(state.skip_score, len(nodes))
            changes.everything()
        same_rows = feasible is self._feasible
        everything = False
        for column in self._by_nodes if changes.node is not None or not same_rows else ():
            everything |= self._refresh(column, state, pod, candidates, feasible, changes, same_rows)
        for column in self._by_pods:
            everything |= self._refresh(column, state, pod, candidates, feasible, changes, same_rows)
        for column in self._by_anything:
            everything |= self._compute(column, state, pod, candidates, feasible, same_rows)
        if everything or changes.any is EVERY:
            self._sum_all(feasible)
        else:
            if changes.any is not None:
                self._sum(changes.any, feasible)
            if not same_rows:
                flipped = (self._feasible != feasible).nonzero()[0]
                if len(flipped):
                    self._sum(flipped, feasible)
        self._mark, self._feasible = nodes.mark, feasible

    def _start(self, skipped: frozenset[str], length: int) -> None:
        self._skipped = skipped
        self._feasible = np.zeros(length, np.bool_)
        runners = [runner for runner in self._runners if runner.name not in skipped]
        self._matrix = np.zeros((len(runners), length), np.int64)
        self.columns = [ScoreColumn(r, line) for r, line in zip(runners, self._matrix, strict=True)]
        self._by_pods = [c for c in self.columns if c.runner.depends is Depends.PODS]
        self._by_anything = [c for c in self.columns if c.runner.depends is Depends.ANYTHING]
        self._by_nodes = [c for c in self.columns if c.runner.depends in (Depends.NODE, Depends.NODES)]

    def _refresh(
        self,
        column: ScoreColumn,
        state: CycleState,
        pod: PodInfo,
        candidates: Nodes,
        feasible: BoolArray,
        changes: Changes,
        same_rows: bool,
    ) -> bool:
        """Ask a plugin about the changed rows; whether scores of other rows may differ too."""
        runner = column.runner
        rows = changes.of(runner.depends)
        if rows is not None:
            self._ask(column, state, pod, feasible, changes, rows)
        if not runner.normalizes:
            return rows is EVERY
        if rows is None and (same_rows or column.uniform is not None):
            return False
        uniform = _common_value(column.raw)
        if uniform is not None and uniform == column.uniform:
            return False
        raw = column.raw if len(candidates) == len(feasible) else column.raw[feasible]
        column.uniform = uniform
        self._normalize(column, raw, state, pod, candidates, feasible)
        return True

    def _ask(
        self,
        column: ScoreColumn,
        state: CycleState,
        pod: PodInfo,
        feasible: BoolArray,
        changes: Changes,
        rows: Rows,
    ) -> None:
        runner, view = column.runner, changes.view(rows)
        if isinstance(rows, slice) and rows is not EVERY:
            row = rows.start
            score = runner.run_one(state, pod, view[0], view)
            if runner.normalizes:
                column.raw[row] = score
                return
            if not 0 <= score <= 100 and feasible.item(row):
                runner.check_range(np.array([score]))
            column.weighted[row] = score * runner.weight
            return
        scores = runner.run(state, pod, view)
        if runner.normalizes:
            column.raw[rows] = scores
            return
        if outside_range(scores):
            # Rows that did not pass the filters may have any score: nobody looks at it.
            runner.check_range(scores[feasible[rows]])
        column.weighted[rows] = scores if runner.weight == 1 else scores * runner.weight

    def _compute(
        self,
        column: ScoreColumn,
        state: CycleState,
        pod: PodInfo,
        candidates: Nodes,
        feasible: BoolArray,
        same_rows: bool,
    ) -> bool:
        """Ask a plugin about all feasible rows; whether its scores differ from last time's."""
        raw = column.runner.run(state, pod, candidates)
        if raw is column.latest and same_rows:
            return False
        column.latest = raw
        if column.runner.normalizes:
            column.raw[EVERY if len(raw) == len(feasible) else feasible] = raw
        self._normalize(column, raw, state, pod, candidates, feasible)
        return True

    def _normalize(
        self,
        column: ScoreColumn,
        raw: IntArray,
        state: CycleState,
        pod: PodInfo,
        candidates: Nodes,
        feasible: BoolArray,
    ) -> None:
        runner = column.runner
        # A copy, because plugins may compute in place, as they do in Go.
        scores = runner.normalize(state, pod, raw.copy(), candidates) if runner.normalizes else raw
        runner.check_range(scores)
        if column.uniform is not None and len(scores):
            column.weighted[:] = scores.item(0) * runner.weight  # rows that become feasible have it, too
            return
        rows = EVERY if len(raw) == len(feasible) else feasible
        column.weighted[rows] = scores if runner.weight == 1 else scores * runner.weight

    def _sum_all(self, feasible: BoolArray) -> None:
        # Without any score plugin all nodes are equally good.
        total = self._matrix.sum(axis=0) if self.columns else np.ones(len(feasible), np.int64)
        total[~feasible] = INFEASIBLE
        self.total = total
        self._best = None

    def _sum(self, rows: Rows, feasible: BoolArray) -> None:
        if isinstance(rows, slice) or len(rows) == 1:
            row = rows.start if isinstance(rows, slice) else rows.item(0)
            total = sum([column.weighted.item(row) for column in self.columns]) if self.columns else 1
            self._set_total(row, total if feasible.item(row) else INFEASIBLE)
            return
        totals = self._matrix[:, rows].sum(axis=0) if self.columns else np.ones(len(rows), np.int64)
        totals[~feasible[rows]] = INFEASIBLE
        self.total[rows] = totals
        self._best = None


def _common_value(scores: IntArray) -> int | None:
    """The score that all rows have, if they do."""
    if not len(scores):
        return None
    first: int = scores.item(0)
    return first if bool((scores == first).all()) else None
