"""What the scores say about every feasible node, kept for a pod shape."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from mooring.framework.cache_key import CacheKey
from mooring.framework.nodes import BoolArray, IntArray
from mooring.framework.pod import PodInfo
from mooring.runtime.changes import EVERY, ByAmounts, Changes, Rows, few_or_many, pick
from mooring.runtime.engine_nodes import EngineNodes, Mark
from mooring.runtime.engine_state import EngineState
from mooring.runtime.groups import Groups
from mooring.runtime.runners import PluginError, ScoreRunner, logger, outside_range
from mooring.runtime.totals import BestRows, Totals

NO_SCORES: IntArray = np.zeros(0, np.int64)
INFEASIBLE = -(1 << 40)  # of a node that did not pass the filters; no sum of scores makes up for it


class ScoreColumn:
    """One plugin's score on each row: raw, and weighted after normalising; or on each group of rows."""

    __slots__ = ("by_group", "groups", "latest", "raw", "runner", "uniform", "weighted")

    def __init__(self, runner: ScoreRunner, weighted: IntArray) -> None:
        self.runner = runner
        self.raw: IntArray = np.zeros(len(weighted) if runner.normalizes else 0, np.int64)
        self.weighted = weighted  # a line of the matrix of all columns
        self.latest: object = None  # the answer of a plugin that is asked every time
        self.uniform: int | None = None  # the raw score that all rows had when they were last normalised
        self.groups: Groups | None = None  # where that was by groups, `raw` and `weighted` are older
        self.by_group = NO_SCORES  # weighted

    def at(self, row: int) -> int:
        """What a row was given, weighted."""
        groups = self.groups
        return self.weighted.item(row) if groups is None else self.by_group.item(groups.of.item(row))

    def on(self, rows: Rows) -> IntArray:
        """What some rows were given, weighted."""
        if self.groups is None:
            return pick(self.weighted, rows)
        if rows is EVERY:
            return self.runner.spread(self.by_group, self.groups)
        return self.by_group.take(pick(self.groups.of, rows))

    def raw_scores(self, rows: list[int]) -> IntArray:
        """What the plugin gave; not kept apart where it is the weighted score but for the weight."""
        if self.groups is not None:
            return self.groups.raw.take(self.groups.of.take(rows))
        return self.raw[rows] if self.runner.normalizes else self.weighted[rows] // self.runner.weight


class _Cycle(msgspec.Struct, frozen=True):
    """What one cycle asks the plugins about."""

    state: EngineState
    pod: PodInfo
    feasible: BoolArray
    candidates: EngineNodes  # the feasible rows
    all_feasible: bool
    same_rows: bool  # whether the same rows were feasible last time
    changes: Changes


class Scoring:
    """The scores of a profile over the feasible rows, for one pod shape.

    The sums are kept in three steps, by how often they change: `_base` is what follows from more than
    amounts, mostly the Nodes; `_kept` adds what follows from amounts, and changes on the rows where pods came
    or went; the totals add what plugins say that are asked every time, for the feasible rows.
    """

    def __init__(self, runners: Iterable[ScoreRunner]) -> None:
        self._runners = tuple(runners)
        self._skipped: frozenset[str] | None = None
        self._mark: Mark | None = None
        self._feasible: BoolArray = np.zeros(0, np.bool_)
        self.columns: list[ScoreColumn] = []
        self._lines: IntArray = np.zeros((0, 0), np.int64)  # their weighted scores
        self._by_nodes: list[ScoreColumn] = []
        self._by_pods: list[ScoreColumn] = []
        self._by_amounts: list[ScoreColumn] = []
        self._uncached: list[ScoreColumn] = []
        self._answers_by_amounts: ByAmounts[list[int]] = ByAmounts()  # what those by amounts said, weighted
        self._base: IntArray = np.zeros(0, np.int64)
        self._uniform_base: IntArray | None = None  # where it is one number, which need not be fetched by row
        self._kept: IntArray = np.zeros(0, np.int64)
        self._totals = Totals(self._kept)
        self._feasible_only = False  # whether no plugin is asked about rows that are not feasible

    @property
    def total(self) -> IntArray:
        """The sum of the weighted scores by row, INFEASIBLE where a row is not feasible."""
        return self._totals.values

    def best(self) -> BestRows:
        """The rows with the highest total, in order."""
        return self._totals.best()

    def weighted(self, row: int) -> list[int]:
        """What each of the columns gave to a row."""
        weighted: list[int] = self._lines[:, row].tolist()
        for column in self._uncached:
            weighted[self.columns.index(column)] = column.at(row)
        return weighted

    def refresh(
        self,
        state: EngineState,
        pod: PodInfo,
        nodes: EngineNodes,
        feasible: BoolArray,
        candidates: EngineNodes,
        changes: Changes,
    ) -> None:
        """Bring the totals up to date. `candidates` are the feasible rows of `nodes`; `feasible` is a new
        array whenever it differs from the last one; `changes` is what filtering saw.

        To keep scores by row, plugins are asked about all rows. If one fails, they are asked only about the
        feasible nodes, as in kube-scheduler: it may rely on a filter.
        """
        try:
            self._refresh_totals(state, pod, nodes, feasible, candidates, changes)
        except PluginError as failure:
            if self._feasible_only or not any(
                runner.name == failure.plugin and runner.reuses for runner in self._runners
            ):
                raise
            self._feasible_only = True
            try:
                self._refresh_totals(state, pod, nodes, feasible, candidates, Changes(nodes, None))
            except PluginError:
                self._feasible_only = False
                raise
            logger.warning(
                "plugin %s failed on nodes that filters refuse; scores are not cached for pods like %s",
                failure.plugin,
                pod.key,
            )

    def _refresh_totals(
        self,
        state: EngineState,
        pod: PodInfo,
        nodes: EngineNodes,
        feasible: BoolArray,
        candidates: EngineNodes,
        changes: Changes,
    ) -> None:
        if changes.since != self._mark:  # not scored in the last cycle
            changes = Changes(nodes, self._mark)
        self._mark = None
        skipped = state.skip_score
        if changes.any is EVERY or (skipped is not self._skipped and skipped != self._skipped):
            self._start(skipped, pod, len(nodes))
            changes.everything()
        all_feasible, same_rows = len(candidates) == len(feasible), feasible is self._feasible
        cycle = _Cycle(state, pod, feasible, candidates, all_feasible, same_rows, changes)
        stale = everywhere = False
        kept: IntArray | None = None  # of the rows that changed, where it is at hand
        if changes.node is not None or not same_rows or self._by_pods:
            stale, everywhere = self._refresh_base(cycle)
        if changes.any is not None and self._by_amounts:
            kept = self._refresh_kept(cycle, changes.any)
        if stale:
            self._kept = _sum(self._base, self._by_amounts)
        for column in self._uncached:
            everywhere |= self._compute(column, cycle)
        if everywhere:
            self._add_up(cycle)
        else:
            if changes.any is not None:
                self._add_up_on(changes.any, cycle, kept)
            if not same_rows:
                self._add_up_on(few_or_many((self._feasible != feasible).nonzero()[0]), cycle)
        self._mark, self._feasible = changes.until, feasible

    def _start(self, skipped: frozenset[str], pod: PodInfo, length: int) -> None:
        self._skipped = skipped
        self._feasible = np.zeros(length, np.bool_)
        runners = [runner for runner in self._runners if runner.name not in skipped]
        self._lines = np.zeros((len(runners), length), np.int64)
        self.columns = columns = [ScoreColumn(r, line) for r, line in zip(runners, self._lines, strict=True)]
        keys = {column: column.runner.cache_key_for(pod) for column in columns}
        self._by_nodes = [c for c in columns if keys[c] in (CacheKey.NODE, CacheKey.ALL_NODES)]
        silent = [c for c in columns if not c.runner.scores_shape(pod)]  # they stay at 0
        self._uncached = [c for c in columns if keys[c] is CacheKey.NONE and c not in silent]
        # Scores that are to be normalised follow from those of other nodes, too.
        self._by_amounts = [c for c in columns if keys[c] is CacheKey.RESOURCES and not c.runner.normalizes]
        others = (*self._by_nodes, *self._uncached, *self._by_amounts, *silent)
        self._by_pods = [c for c in columns if c not in others]
        self._answers_by_amounts = ByAmounts()
        if self._feasible_only:
            self._by_nodes, self._by_amounts, self._by_pods, self._uncached = [], [], [], columns

    # ---- scores that are kept

    def _refresh_base(self, cycle: _Cycle) -> tuple[bool, bool]:
        """Ask those whose scores follow from more than amounts; whether any were asked whose scores may
        differ, and whether scores may differ on rows that did not change."""
        changes = cycle.changes
        everywhere = changes.any is EVERY
        if changes.node is not None or not cycle.same_rows:
            for column in self._by_nodes:
                everywhere |= self._refresh(column, cycle)
        for column in self._by_pods:
            everywhere |= self._refresh(column, cycle)
        stale = everywhere or changes.node is not None or bool(self._by_pods and changes.any is not None)
        if stale:
            # Without any score plugin all nodes are equally good.
            base = np.broadcast_to(np.int64(not self.columns), len(cycle.feasible))
            base = _sum(base, (*self._by_nodes, *self._by_pods))
            uniform = _common_value(base)
            self._base, self._uniform_base = base, None
            if uniform is not None:  # of equal numbers one is enough
                self._uniform_base = np.array(uniform)
                self._base = np.broadcast_to(self._uniform_base, len(base))
        return stale, everywhere

    def _refresh(self, column: ScoreColumn, cycle: _Cycle) -> bool:
        """Ask a plugin about the changed rows; whether scores of other rows may differ, too."""
        runner = column.runner
        rows = cycle.changes.of(runner.cache_key)
        if rows is not None:
            self._ask(column, cycle, rows)
        if not runner.normalizes:
            return rows is EVERY
        if rows is None and (cycle.same_rows or column.uniform is not None):
            return False
        uniform = _common_value(column.raw)
        if uniform is not None and uniform == column.uniform:
            return False
        column.uniform = uniform
        self._normalize(column, column.raw if cycle.all_feasible else column.raw[cycle.feasible], cycle)
        return True

    def _ask(self, column: ScoreColumn, cycle: _Cycle, rows: Rows) -> None:
        """Ask a plugin about some rows, and keep the scores."""
        state, pod, runner, view = cycle.state, cycle.pod, column.runner, cycle.changes.view(rows)
        if isinstance(rows, list) and len(rows) == 1:
            scores = np.array([runner.run_one(state, pod, view[0], view)])
        else:
            scores = runner.run(state, pod, view)
        if runner.normalizes:
            column.raw[rows] = scores
        else:
            self._keep(column, cycle, rows, scores)

    def _keep(self, column: ScoreColumn, cycle: _Cycle, rows: Rows, scores: IntArray) -> IntArray:
        """Keep scores that need not be normalised; they, weighted."""
        runner = column.runner
        if outside_range(scores):
            # Rows that did not pass the filters may have any score: it is not used.
            runner.check_range(scores[cycle.feasible[rows]])
        if runner.weight != 1:
            scores = scores * runner.weight
        column.weighted[rows] = scores
        return scores

    def _refresh_kept(self, cycle: _Cycle, rows: Rows) -> IntArray | None:
        """Ask those whose scores follow from amounts, and add them to the base; the sums of many rows."""
        if isinstance(rows, list):
            self._refresh_kept_few(cycle, rows)
            return None
        total = self._uniform_base
        if total is None:
            total = pick(self._base, rows)
        state, pod, view = cycle.state, cycle.pod, cycle.changes.view(rows)
        for column in self._by_amounts:
            total = total + self._keep(column, cycle, rows, column.runner.run(state, pod, view))
        if rows is not EVERY:
            self._kept[rows] = total
        return total

    def _refresh_kept_few(self, cycle: _Cycle, rows: list[int]) -> None:
        """Update the cached totals of some rows from the scores of nodes with equal amounts."""
        changes, by_amounts, columns = cycle.changes, self._answers_by_amounts, self._by_amounts
        for row, amounts in zip(rows, changes.amounts(rows), strict=True):
            weighted = None if amounts is None else by_amounts.get(amounts)
            if weighted is None:
                weighted = self._ask_one(cycle, row, amounts)
            for column, score in zip(columns, weighted, strict=True):
                column.weighted[row] = score
            self._kept[row] = self._base.item(row) + sum(weighted)

    def _ask_one(self, cycle: _Cycle, row: int, amounts: tuple[int, ...] | None) -> list[int]:
        columns = self._by_amounts
        view = cycle.changes.nodes.take(slice(row, row + 1))
        scores = [c.runner.run_one(cycle.state, cycle.pod, view[0], view) for c in columns]
        weighted = [score * c.runner.weight for c, score in zip(columns, scores, strict=True)]
        if all(0 <= score <= 100 for score in scores):
            self._answers_by_amounts.keep(amounts, weighted)
        elif cycle.feasible.item(row):
            for column, score in zip(columns, scores, strict=True):
                column.runner.check_range(np.array([score]))
        return weighted

    # ---- scores that are asked for every time

    def _compute(self, column: ScoreColumn, cycle: _Cycle) -> bool:
        """Ask a plugin about all feasible rows; whether its scores differ from last time's."""
        runner, state = column.runner, cycle.state
        if runner.by_groups and state.sampling is None:  # who times plugins wants to see each step
            return self._compute_groups(column, cycle)
        raw = runner.run(state, cycle.pod, cycle.candidates)
        if raw is column.latest and cycle.same_rows:
            return False
        column.latest, column.groups = raw, None
        if runner.normalizes:
            column.raw[EVERY if cycle.all_feasible else cycle.feasible] = raw
        self._normalize(column, raw, cycle)
        return True

    def _compute_groups(self, column: ScoreColumn, cycle: _Cycle) -> bool:
        runner = column.runner
        groups = runner.groups(cycle.state, cycle.pod, cycle.candidates, len(cycle.feasible))
        if groups is column.latest and cycle.same_rows:
            return False
        column.latest = column.groups = groups
        if outside_range(groups.scores):  # perhaps only of groups that no feasible row is in
            runner.check_range(runner.spread(groups.scores, groups)[cycle.feasible])
        column.by_group = groups.scores * runner.weight
        return True

    def _normalize(self, column: ScoreColumn, raw: IntArray, cycle: _Cycle) -> None:
        runner, scores = column.runner, raw
        if runner.normalizes:
            # A copy, because plugins may compute in place, as they do in Go.
            scores = runner.normalize(cycle.state, cycle.pod, raw.copy(), cycle.candidates)
        runner.check_range(scores)
        if column.uniform is not None and len(scores):
            column.weighted[:] = scores.item(0) * runner.weight  # rows that become feasible have it, too
        elif cycle.all_feasible:
            np.multiply(scores, runner.weight, out=column.weighted)
        else:
            column.weighted[cycle.feasible] = scores * runner.weight

    # ---- totals

    def _add_up(self, cycle: _Cycle) -> None:
        total = _sum(self._kept, self._uncached)
        if total is self._kept:
            total = total.copy()
        if not cycle.all_feasible:
            total[~cycle.feasible] = INFEASIBLE
        self._totals = Totals(total)

    def _add_up_on(self, rows: Rows, cycle: _Cycle, kept: IntArray | None = None) -> None:
        """Add up the totals of some rows; `kept` is their cached part, if available."""
        feasible, columns = cycle.feasible, self._uncached
        if isinstance(rows, list):
            for row in rows:
                total = INFEASIBLE
                if feasible.item(row):
                    total = self._kept.item(row) + sum([column.at(row) for column in columns])
                self._totals.set_one(row, total)
            return
        totals = pick(self._kept, rows) if kept is None else kept
        for column in columns:
            totals += column.on(rows)
        if not cycle.all_feasible:
            totals[~pick(feasible, rows)] = INFEASIBLE
        self._totals.set(rows, totals)


def _sum(start: IntArray, columns: Iterable[ScoreColumn]) -> IntArray:
    """The sum of the columns' weighted scores; `start` itself if there are none."""
    for column in columns:
        start = start + column.on(EVERY)
    return start


def _common_value(scores: IntArray) -> int | None:
    """The score that all rows have, if they do."""
    if not len(scores):
        return None
    first: int = scores.item(0)
    return first if np.count_nonzero(scores == first) == len(scores) else None
