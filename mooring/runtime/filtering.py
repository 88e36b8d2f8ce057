"""What the filters say about every node: kept for a pod shape, or asked once about any view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from mooring.framework.cache_key import CacheKey
from mooring.framework.nodes import BoolArray, Verdicts
from mooring.framework.pod import PodInfo
from mooring.framework.status import Code, Status, error
from mooring.runtime.changes import EVERY, ByAmounts, Changes, Rows, pick
from mooring.runtime.engine_nodes import EngineNodes, Mark
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterError, FilterRunner, PluginError, logger, same_statuses


class FilterColumn:
    """One filter's verdict on each row."""

    __slots__ = ("codes", "latest", "refusing", "runner", "statuses")

    def __init__(self, runner: FilterRunner, length: int) -> None:
        self.runner = runner
        self.codes: npt.NDArray[np.int32] = np.zeros(length, np.int32)
        self.refusing = False  # whether any code may be other than 0
        self.statuses: Mapping[int, Status] = {}
        self.latest: Verdicts | None = None  # of the last time all rows were asked about

    def put(self, rows: Rows, verdicts: Verdicts | None) -> bool:
        """Take over verdicts on some rows; whether any of them is new."""
        codes = self.codes
        if verdicts is None:
            if not self.refusing:
                return False
            codes[rows] = 0
            self.refusing = bool(codes.any())
            return True
        codes[rows] = self._fitting(rows, verdicts).codes
        self.refusing = True
        return True

    def put_one(self, row: int, verdicts: Verdicts | None) -> bool:
        """`put` for one row."""
        if verdicts is None and not self.refusing:
            return False
        old = self.codes.item(row)
        if verdicts is None or not verdicts.codes.item(0):
            self.codes[row] = 0
            return bool(old)
        new = self._fitting(slice(row, row + 1), verdicts).codes.item(0)
        self.codes[row] = new
        self.refusing = True
        return bool(new != old)

    def _fitting(self, rows: Rows, verdicts: Verdicts) -> Verdicts:
        """The verdicts in codes that mean the same on all rows of this column."""
        if same_statuses(verdicts.statuses, self.statuses) or not verdicts.codes.any():
            return verdicts
        if rows is not EVERY and self.refusing:
            return self._translated(verdicts)
        self.statuses = verdicts.statuses
        return verdicts

    def _translated(self, verdicts: Verdicts) -> Verdicts:
        """The verdicts in the codes that this column already uses."""
        codes_by_status = {status: code for code, status in self.statuses.items()}
        statuses = dict(self.statuses)
        codes = np.zeros_like(verdicts.codes)
        for code in np.unique(verdicts.codes[verdicts.codes != 0]).tolist():
            status = verdicts.statuses[code]
            own_code = codes_by_status.setdefault(status, max(statuses, default=0) + 1)
            statuses[own_code] = status
            codes[verdicts.codes == code] = own_code
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
        self._codes: npt.NDArray[np.int32] = np.zeros(0, np.int32)  # of that column, for each row
        self.feasible: BoolArray = np.zeros(0, np.bool_)
        self.version = 0  # changes whenever `feasible` does
        self._by_node: list[FilterColumn] = []
        self._by_nodes: list[FilterColumn] = []
        self._by_amounts: list[FilterColumn] = []
        self._by_pods: list[FilterColumn] = []
        self._uncached: list[tuple[int, FilterColumn]] = []
        self._answers_by_amounts: ByAmounts[list[Verdicts | None]] = ByAmounts()  # what those by amounts said
        self._candidates: tuple[int, EngineNodes] | None = None
        # Summaries of all rows; a row that changes is counted again by itself.
        self._counts: dict[tuple[int, int], int] | None = None  # (`first`, code) → rows
        self._refusals: list[tuple[Status, int]] | None = None
        self._with_code: dict[Code, BoolArray] = {}
        self._in_order = False  # whether each filter is only asked about rows that pass those before it

    def refresh(
        self, state: EngineState, pod: PodInfo, nodes: EngineNodes, allowed: BoolArray | None = None
    ) -> Changes:
        """Update the verdicts and return what changed. After an exception, everything is evaluated again.

        To keep verdicts by row, filters are asked about all rows. One that fails is asked again as
        kube-scheduler asks it, not about nodes that an earlier filter refuses: it may rely on that one.
        """
        if self._in_order:
            return self._refresh_in_order(state, pod, nodes, allowed)
        try:
            return self._refresh(state, pod, nodes, allowed)
        except PluginError as failure:
            if not any(r.name == failure.plugin and r.sees_refused_nodes for r in self._runners):
                raise
            changes = self._refresh_in_order(state, pod, nodes, allowed)
            self._in_order = True
            logger.warning(
                "plugin %s failed on nodes that earlier filters refuse; its verdicts are not cached for pods "
                "like %s",
                failure.plugin,
                pod.key,
            )
            return changes

    def _refresh_in_order(
        self, state: EngineState, pod: PodInfo, nodes: EngineNodes, allowed: BoolArray | None
    ) -> Changes:
        changes = Changes(nodes, None)
        self._mark = None
        self._start(state.skip_filter, len(nodes))
        for index, column in enumerate(self.columns):
            alive = self._alive(index, allowed)
            if alive.any():
                column.put(np.flatnonzero(alive), column.runner.run(state, pod, nodes.where(alive)))
        self._combine(EVERY)
        return changes

    def _refresh(
        self, state: EngineState, pod: PodInfo, nodes: EngineNodes, allowed: BoolArray | None
    ) -> Changes:
        changes = Changes(nodes, self._mark)
        self._mark = None
        skipped = state.skip_filter
        if changes.any is EVERY or (skipped is not self._skipped and skipped != self._skipped):
            self._start(skipped, len(nodes))
            changes.everything()
        stale = None if changes.any is None else self._ask_changed(changes, state, pod, changes.any)
        for index, column in self._uncached:
            runner = column.runner
            alive = self._alive(index, allowed) if runner.by_node else None
            verdicts = runner.run(state, pod, nodes, alive)
            if verdicts is not column.latest:  # a new column starts with None and all rows passing
                column.latest = verdicts
                column.put(EVERY, verdicts)
                stale = EVERY
        if stale is not None:
            self._combine(stale)
        self._mark = changes.until
        return changes

    def _start(self, skipped: frozenset[str], length: int) -> None:
        self._skipped = skipped
        runners = [r for r in self._runners if r.name not in skipped]
        self.columns = [FilterColumn(r, length) for r in runners]
        self._by_node = [c for c in self.columns if c.runner.cache_key is CacheKey.NODE]
        self._by_nodes = [c for c in self.columns if c.runner.cache_key is CacheKey.ALL_NODES]
        self._by_amounts = [c for c in self.columns if c.runner.cache_key is CacheKey.RESOURCES]
        self._by_pods = [c for c in self.columns if c.runner.cache_key is CacheKey.NODE_AND_PODS]
        self._uncached = [(i, c) for i, c in enumerate(self.columns) if c.runner.cache_key is CacheKey.NONE]
        self._answers_by_amounts = ByAmounts()
        self.first = np.zeros(length, np.int16)
        self._codes = np.zeros(length, np.int32)
        self.feasible = np.ones(length, np.bool_)
        self.version += 1
        self._forget_summaries()

    def _forget_summaries(self) -> None:
        self._counts = self._refusals = None
        self._with_code.clear()

    def _ask_changed(self, changes: Changes, state: EngineState, pod: PodInfo, rows: Rows) -> Rows | None:
        """Ask plugins again about what changed, all of which `rows` are; the rows if any verdict is new."""
        stale = everywhere = False
        if changes.node is not None:
            stale = self._ask(self._by_node, changes.node, changes, state, pod)
            everywhere = self._ask(self._by_nodes, EVERY, changes, state, pod)
        if self._by_pods:
            stale |= self._ask(self._by_pods, rows, changes, state, pod)
        if not isinstance(rows, list):
            stale |= self._ask(self._by_amounts, rows, changes, state, pod)
        elif self._by_amounts:
            stale |= self._ask_by_amounts(rows, changes, state, pod)
        return EVERY if everywhere else rows if stale else None

    def _ask(
        self, columns: list[FilterColumn], rows: Rows, changes: Changes, state: EngineState, pod: PodInfo
    ) -> bool:
        """Ask plugins about rows again; whether any verdict is new."""
        stale = False
        if columns and isinstance(rows, list) and len(rows) == 1:
            row, view = rows[0], changes.view(rows)
            for column in columns:
                stale |= column.put_one(row, column.runner.run_one(state, pod, view[0], view))
        elif columns:
            view = changes.view(rows)
            for column in columns:
                verdicts = column.runner.run(state, pod, view)
                if verdicts is not None or column.refusing:
                    stale |= column.put(rows, verdicts)
        return stale

    def _ask_by_amounts(self, rows: list[int], changes: Changes, state: EngineState, pod: PodInfo) -> bool:
        """`_ask` where an answer is known for nodes that are equally large and full."""
        stale = False
        columns, by_amounts = self._by_amounts, self._answers_by_amounts
        for row, amounts in zip(rows, changes.amounts(rows), strict=True):
            verdicts = None if amounts is None else by_amounts.get(amounts)
            if verdicts is None:
                view = changes.nodes.take(slice(row, row + 1))
                answers = [column.runner.run_one(state, pod, view[0], view) for column in columns]
                verdicts = by_amounts.keep(amounts, answers)
            for column, verdict in zip(columns, verdicts, strict=True):
                stale |= column.put_one(row, verdict)
        return stale

    def _alive(self, index: int, allowed: BoolArray | None) -> BoolArray:
        """The rows that earlier filters let pass: kube-scheduler asks no further about the others."""
        alive = np.ones(len(self.first), np.bool_) if allowed is None else allowed.copy()
        for column in self.columns[:index]:
            alive &= column.codes == 0
        return alive

    def _combine(self, rows: Rows) -> None:
        if isinstance(rows, list):
            for row in rows:
                self._combine_one(row)
            return
        self._forget_summaries()
        before = pick(self.feasible, rows)
        merged, codes = np.zeros(len(before), np.int16), np.zeros(len(before), np.int32)
        for index, column in reversed(list(enumerate(self.columns))):
            if column.refusing:
                own = pick(column.codes, rows)
                refused = own != 0
                merged[refused] = index + 1
                np.copyto(codes, own, where=refused)
        self.first[rows], self._codes[rows] = merged, codes
        after = merged == 0
        if not np.array_equal(before, after):
            self.feasible = self.feasible.copy()
            self.feasible[rows] = after
            self.version += 1

    def _combine_one(self, row: int) -> None:
        refused = code = 0
        for index, column in enumerate(self.columns):
            code = column.codes.item(row)
            if code:
                refused = index + 1
                break
        self._recount(row, (self.first.item(row), self._codes.item(row)), (refused, code))
        self.first[row], self._codes[row] = refused, code
        if self.feasible.item(row) != (refused == 0):
            self.feasible = self.feasible.copy()
            self.feasible[row] = refused == 0
            self.version += 1

    def _recount(self, row: int, before: tuple[int, int], after: tuple[int, int]) -> None:
        """Keep the summaries in step with a row whose refusal changes."""
        if before == after:
            return
        self._refusals = None
        counts = self._counts
        if counts is not None:
            counts[before] -= 1
            counts[after] = counts.get(after, 0) + 1
        for code, rows in self._with_code.items():
            rows[row] = after[0] and self.columns[after[0] - 1].statuses[after[1]].code is code

    def failure(self, among: BoolArray | None = None) -> PluginError | None:
        """The error of the first row for which a filter answered with one, unless an earlier filter refused
        that row."""
        for index, column in self._uncached:
            if not column.refusing:
                continue
            failing = [code for code, status in column.statuses.items() if status.code is Code.ERROR]
            if not failing:
                continue
            rows = (self.first == index + 1) & np.isin(column.codes, failing)
            failing_rows = np.flatnonzero(rows if among is None else rows & among)
            if len(failing_rows):
                status = column.statuses[column.codes.item(failing_rows[0])]
                return FilterError(column.runner.name, status.message)
        return None

    def candidates(self, nodes: EngineNodes) -> EngineNodes:
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
        return _status(column.runner, column.statuses[column.codes.item(row)])

    def passing_nodes(self, but: str) -> BoolArray | None:
        """The rows that pass all filters `but` one that goes by resources; None where another filter looks at
        pods."""
        amounts = [column for column in self._by_amounts if column.runner.name != but]
        if amounts or self._by_pods or self._uncached:
            return None
        passing = np.ones(len(self.first), np.bool_)
        for column in (*self._by_node, *self._by_nodes):
            if column.refusing:
                passing &= column.codes == 0
        return passing

    def with_code(self, code: Code) -> BoolArray:
        """The rows whose refusal has a code; to be read only."""
        matching = self._with_code.get(code)
        if matching is None:
            matching = self._with_code[code] = np.zeros(len(self.first), np.bool_)
            for index, refused in enumerate(np.bincount(self.first, minlength=1)[1:].tolist()):
                if not refused:
                    continue
                column, rows = self.columns[index], self.first == index + 1
                for own_code in np.unique(column.codes[rows]).tolist():
                    if column.statuses[own_code].code is code:
                        matching |= rows & (column.codes == own_code)
        return matching

    def refusals(self, among: BoolArray | None = None) -> list[tuple[Status, int]]:
        """Each distinct refusal and how many rows have it."""
        if among is not None:
            return self._signed(self._count(self.first[among], self._codes[among]))
        if self._refusals is None:
            if self._counts is None:
                self._counts = self._count(self.first, self._codes)
            self._refusals = self._signed(self._counts)
        return self._refusals

    def _count(
        self, first: npt.NDArray[np.int16], codes: npt.NDArray[np.int32]
    ) -> dict[tuple[int, int], int]:
        """How many rows each filter refuses with each of its codes; (0, 0) are those that pass."""
        distinct, counts = np.unique(first.astype(np.int64) << 32 | codes, return_counts=True)
        pairs = zip((distinct >> 32).tolist(), (distinct & 0xFFFFFFFF).tolist(), strict=True)
        return dict(zip(pairs, counts.tolist(), strict=True))

    def _signed(self, counts: Mapping[tuple[int, int], int]) -> list[tuple[Status, int]]:
        refusals = []
        for (index, code), count in sorted(counts.items()):
            if index and count:
                column = self.columns[index - 1]
                refusals.append((column.runner.signed(column.statuses[code]), count))
        return refusals


class Answer:
    """What the filters say about the rows of one view, asked once."""

    __slots__ = ("_verdicts", "first")

    def __init__(
        self,
        runners: Iterable[FilterRunner],
        state: EngineState,
        pod: PodInfo,
        nodes: EngineNodes,
        *,
        contained: bool = False,
    ) -> None:
        """Ask the filters. With `contained`, one that fails rejects the rows for which it fails, with an
        error; otherwise PluginError is raised."""
        self._verdicts: list[tuple[FilterRunner, Verdicts]] = []
        self.first: npt.NDArray[np.int16] = np.zeros(len(nodes), np.int16)
        for runner in runners:
            if runner.name in state.skip_filter:
                continue
            alive = self.first == 0
            verdicts = _ask(runner, state, pod, nodes, alive, contained)
            if verdicts is not None:
                self._verdicts.append((runner, verdicts))
                self.first[alive & (verdicts.codes != 0)] = len(self._verdicts)

    @property
    def passed(self) -> BoolArray:
        passed: BoolArray = self.first == 0
        return passed

    def status(self, i: int) -> Status | None:
        index = self.first.item(i)
        if index == 0:
            return None
        runner, verdicts = self._verdicts[index - 1]
        return _status(runner, verdicts.statuses[verdicts.codes.item(i)])


def _status(runner: FilterRunner, status: Status) -> Status:
    if status.code is Code.ERROR:
        status = error(str(FilterError(runner.name, status.message)))
    return runner.signed(status)


def _ask(
    runner: FilterRunner,
    state: EngineState,
    pod: PodInfo,
    nodes: EngineNodes,
    alive: BoolArray,
    contained: bool,
) -> Verdicts | None:
    try:
        return runner.run(state, pod, nodes, alive)
    except FilterError:
        if not contained:
            raise
    return _ask_each(runner, state, pod, nodes, alive)


def _ask_each(
    runner: FilterRunner, state: EngineState, pod: PodInfo, nodes: EngineNodes, alive: BoolArray
) -> Verdicts:
    """Ask about each row alone; one for which the filter fails gets an error."""
    codes = np.zeros(len(nodes), np.int32)
    statuses: dict[int, Status] = {}
    for i in np.flatnonzero(alive).tolist():
        try:
            verdicts = runner.run(state, pod, nodes.part(np.array([i])))
        except FilterError as failure:
            status = error(failure.problem)
        else:
            if verdicts is None or not verdicts.codes[0]:
                continue
            status = verdicts.statuses[verdicts.codes.item(0)]
        codes[i] = i + 1
        statuses[i + 1] = status
    return Verdicts(codes, statuses)
