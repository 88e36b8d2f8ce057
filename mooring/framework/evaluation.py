"""What the filters and scores say about every node for one pod shape, kept from cycle to cycle.

For each plugin there is one column over all rows of the node table. A plugin that depends on the node (or
on the node and its pods) is asked again only about rows that changed since; one that depends on anything
is asked every time, and tells by returning the very same array that nothing has changed. The combined
answer is then brought up to date on the changed rows alone. The result is exactly what asking everything
anew would give: the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import BoolArray, Depends, IntArray, Mark, Nodes, Verdicts
from mooring.framework.pod import PodInfo
from mooring.framework.runners import FilterRunner, ScoreRunner, outside_range, same_statuses
from mooring.framework.status import Code, Status

Rows = slice | npt.NDArray[np.intp]
EVERY = slice(None)
INFEASIBLE = -1  # the total of a node that did not pass the filters


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


class FilterColumn:
    """One filter's verdict on each row."""

    __slots__ = ("codes", "latest", "runner", "statuses")

    def __init__(self, runner: FilterRunner, length: int) -> None:
        self.runner = runner
        self.codes: npt.NDArray[np.int32] = np.zeros(length, np.int32)
        self.statuses: Mapping[int, Status] = {}
        self.latest: Verdicts | None = None  # of the last time all rows were asked about

    def put(self, rows: Rows, verdicts: Verdicts | None) -> bool:
        """Take over verdicts on some rows; whether any of them is new."""
        codes = self.codes
        if verdicts is None:
            if not codes[rows].any():
                return False
            codes[rows] = 0
            return True
        codes[rows] = self._fitting(rows, verdicts).codes
        return True

    def put_one(self, row: int, verdicts: Verdicts | None) -> bool:
        """`put` for one row."""
        old = self.codes.item(row)
        if verdicts is None or not verdicts.codes.item(0):
            self.codes[row] = 0
            return bool(old)
        new = self._fitting(slice(row, row + 1), verdicts).codes.item(0)
        self.codes[row] = new
        return bool(new != old)

    def _fitting(self, rows: Rows, verdicts: Verdicts) -> Verdicts:
        """The verdicts in codes that mean the same on all rows of this column."""
        if same_statuses(verdicts.statuses, self.statuses) or not verdicts.codes.any():
            return verdicts
        if rows is not EVERY and self.codes.any():
            return self._translated(verdicts)
        self.statuses = verdicts.statuses
        return verdicts

    def _translated(self, verdicts: Verdicts) -> Verdicts:
        """The verdicts in the codes that this column already uses."""
        known = {status: code for code, status in self.statuses.items()}
        statuses = dict(self.statuses)
        codes = np.zeros_like(verdicts.codes)
        for code in np.unique(verdicts.codes[verdicts.codes != 0]).tolist():
            status = verdicts.statuses[code]
            mine = known.setdefault(status, max(statuses, default=0) + 1)
            statuses[mine] = status
            codes[verdicts.codes == code] = mine
        self.statuses = statuses
        return Verdicts(codes, statuses)


class Filtering:
    """The filters of a profile over the whole table, for one pod shape."""

    def __init__(self, runners: Iterable[FilterRunner]) -> None:
        self._runners = tuple(runners)
        self._skipped: frozenset[str] | None = None
        self._mark: Mark | None = None
        self.columns: list[FilterColumn] = []
        self.first: npt.NDArray[np.int16] = np.zeros(
            0, np.int16
        )  # 1 + index of the refusing column; 0 passes
        self.feasible: BoolArray = np.zeros(0, np.bool_)
        self.version = 0  # changes whenever `feasible` does
        self._by_node: list[FilterColumn] = []
        self._by_nodes: list[FilterColumn] = []
        self._by_pods: list[FilterColumn] = []
        self._by_anything: list[tuple[int, FilterColumn]] = []
        self._candidates: tuple[int, Nodes] | None = None

    def refresh(
        self, state: CycleState, pod: PodInfo, nodes: Nodes, allowed: BoolArray | None = None
    ) -> Changes:
        """Bring the verdicts up to date, and tell what had changed. After an exception all is asked anew."""
        changes = Changes(nodes, self._mark)
        mark, self._mark = nodes.mark, None
        if self._skipped != state.skip_filter or changes.any is EVERY:
            self._start(state.skip_filter, len(nodes))
            changes.everything()
        stale: Rows | None = None
        if changes.node is not None:
            stale = self._ask(self._by_node, changes.node, changes, state, pod)
            if self._by_nodes and self._ask(self._by_nodes, EVERY, changes, state, pod) is not None:
                stale = EVERY
        if changes.any is not None and self._ask(self._by_pods, changes.any, changes, state, pod) is not None:
            stale = changes.any if stale is not EVERY else EVERY
        for index, column in self._by_anything:
            runner = column.runner
            alive = self._alive(index, allowed) if runner.by_node else None
            verdicts = runner.run(state, pod, nodes, alive)
            if verdicts is not column.latest:  # a new column starts with None and all rows passing
                column.latest = verdicts
                column.put(EVERY, verdicts)
                stale = EVERY
        if stale is not None:
            self._combine(stale)
        self._mark = mark
        return changes

    def _start(self, skipped: frozenset[str], length: int) -> None:
        self._skipped = skipped
        runners = [r for r in self._runners if r.name not in skipped]
        self.columns = [FilterColumn(r, length) for r in runners]
        self._by_node = [c for c in self.columns if c.runner.depends is Depends.NODE]
        self._by_nodes = [c for c in self.columns if c.runner.depends is Depends.NODES]
        self._by_pods = [c for c in self.columns if c.runner.depends is Depends.PODS]
        self._by_anything = [
            (i, c) for i, c in enumerate(self.columns) if c.runner.depends is Depends.ANYTHING
        ]
        self.first = np.zeros(length, np.int16)
        self.feasible = np.ones(length, np.bool_)
        self.version += 1

    def _ask(
        self, columns: list[FilterColumn], rows: Rows, changes: Changes, state: CycleState, pod: PodInfo
    ) -> Rows | None:
        """Ask plugins about changed rows again; the rows if any verdict is new."""
        view = changes.view(rows)
        stale = False
        if isinstance(rows, slice) and rows is not EVERY:
            node = view[0]
            for column in columns:
                stale |= column.put_one(rows.start, column.runner.run_one(state, pod, node, view))
        else:
            for column in columns:
                stale |= column.put(rows, column.runner.run(state, pod, view))
        return rows if stale else None

    def _alive(self, index: int, allowed: BoolArray | None) -> BoolArray:
        """The rows that earlier filters let pass: kube-scheduler asks no further about the others."""
        alive = np.ones(len(self.first), np.bool_) if allowed is None else allowed.copy()
        for column in self.columns[:index]:
            alive &= column.codes == 0
        return alive

    def _combine(self, rows: Rows) -> None:
        first = self.first
        if isinstance(rows, slice) and rows is not EVERY:
            self._combine_one(rows.start)
            return
        before = self.feasible[rows]
        merged = np.zeros(len(first) if rows is EVERY else len(before), np.int16)
        for index in range(len(self.columns) - 1, -1, -1):
            merged[self.columns[index].codes[rows] != 0] = index + 1
        first[rows] = merged
        after = merged == 0
        if not np.array_equal(before, after):
            self.feasible = self.feasible.copy()
            self.feasible[rows] = after
            self.version += 1

    def _combine_one(self, row: int) -> None:
        refused = 0
        for index, column in enumerate(self.columns):
            if column.codes.item(row):
                refused = index + 1
                break
        self.first[row] = refused
        if self.feasible.item(row) != (refused == 0):
            self.feasible = self.feasible.copy()
            self.feasible[row] = refused == 0
            self.version += 1

    def candidates(self, nodes: Nodes) -> Nodes:
        """The feasible rows as a view."""
        if self._candidates is None or self._candidates[0] != self.version:
            self._candidates = (self.version, nodes.where(self.feasible))
        return self._candidates[1]

    def status(self, row: int) -> Status | None:
        """Why a row was refused, by the first filter that did."""
        index = int(self.first[row])
        if index == 0:
            return None
        column = self.columns[index - 1]
        return column.runner.signed(column.statuses[column.codes.item(row)])

    def with_code(self, code: Code) -> BoolArray:
        """The rows whose refusal has a code."""
        found = np.zeros(len(self.first), np.bool_)
        for index, refused in enumerate(np.bincount(self.first, minlength=1)[1:].tolist()):
            if not refused:
                continue
            column, rows = self.columns[index], self.first == index + 1
            for mine in np.unique(column.codes[rows]).tolist():
                if column.statuses[mine].code is code:
                    found |= rows & (column.codes == mine)
        return found

    def refusals(self, among: BoolArray | None = None) -> Iterator[tuple[Status, int]]:
        """Each distinct refusal and how many rows have it."""
        refusing = self.first if among is None else self.first[among]
        for index, refused in enumerate(np.bincount(refusing, minlength=1)[1:].tolist()):
            if not refused:
                continue
            column = self.columns[index]
            codes = (column.codes if among is None else column.codes[among])[refusing == index + 1]
            found, counts = np.unique(codes, return_counts=True)
            for code, count in zip(found.tolist(), counts.tolist(), strict=True):
                yield column.runner.signed(column.statuses[code]), count


class Answer:
    """What the filters say about the rows of one view, asked once."""

    __slots__ = ("_asked", "first")

    def __init__(
        self, runners: Iterable[FilterRunner], state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> None:
        self._asked: list[tuple[FilterRunner, Verdicts]] = []
        self.first: npt.NDArray[np.int16] = np.zeros(len(nodes), np.int16)
        for runner in runners:
            if runner.name in state.skip_filter:
                continue
            alive = self.first == 0
            verdicts = runner.run(state, pod, nodes, alive)
            if verdicts is not None:
                self._asked.append((runner, verdicts))
                self.first[alive & (verdicts.codes != 0)] = len(self._asked)

    @property
    def passed(self) -> BoolArray:
        passed: BoolArray = self.first == 0
        return passed

    def status(self, i: int) -> Status | None:
        index = self.first.item(i)
        if index == 0:
            return None
        runner, verdicts = self._asked[index - 1]
        return runner.signed(verdicts.statuses[verdicts.codes.item(i)])


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
