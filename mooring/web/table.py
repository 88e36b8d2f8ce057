"""The node × plugin table of a pod: every filter's verdict and every score, evaluated now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from mooring.api.times import format_time
from mooring.core.algorithm import Choice
from mooring.core.scheduler import Scheduler
from mooring.explain.refusing import Verdict
from mooring.explain.rehearsal import Rehearsal
from mooring.framework.pod import PodInfo
from mooring.runtime.runners import PluginError
from mooring.web.records import PodTable, ScoreColumn, TableColumn

EVALUATED = "evaluated"


def pod_table(scheduler: Scheduler, pod: PodInfo) -> PodTable:
    """Evaluate a pod on every node; a pod that has one is taken off it for that moment."""
    table = PodTable(
        pod=pod.key,
        as_of=format_time(scheduler.clock()),
        basis=EVALUATED,
        nodes=list(scheduler.cluster.table.names),
        filters=[],
        scores=[],
        total=[],
        chosen=pod.node_name,
    )
    if pod.scheduler_name not in scheduler.profiles or not table.nodes:
        return table
    try:
        with _taken_off(scheduler, pod) as free:
            rehearsal = Rehearsal(scheduler, free)
            table.filters = _merged([_filter(verdict) for verdict in rehearsal.refusing.verdicts])
            _score(table, rehearsal.choice)
    except PluginError as failure:
        table.error = str(failure)
    return table


@contextmanager
def _taken_off(scheduler: Scheduler, pod: PodInfo) -> Iterator[PodInfo]:
    """The pod without a node. Nothing else runs meanwhile, so that no attempt sees the node without it."""
    cluster = scheduler.cluster
    placed = cluster.placed(pod.uid)
    if placed is None or cluster.is_assumed(pod.uid):
        yield pod
        return
    cluster.remove_pod(pod.uid)
    try:
        spec = msgspec.structs.replace(placed.spec, node_name="")
        yield cluster.info(msgspec.structs.replace(placed.pod, spec=spec))
    finally:
        cluster.add_pod(placed)


def _filter(verdict: Verdict) -> TableColumn:
    codes, reasons = np.zeros(len(verdict.refused), np.int64), list[str]()
    for code in np.unique(verdict.codes[verdict.refused]).tolist():
        rows = np.flatnonzero(verdict.refused & (verdict.codes == code))
        text = "; ".join(verdict.reasons_of(int(rows[0])))
        if text not in reasons:
            reasons.append(text)
        codes[rows] = reasons.index(text) + 1
    return TableColumn(plugin=verdict.plugin, codes=codes.tolist(), reasons=reasons)


def _merged(columns: list[TableColumn]) -> list[TableColumn]:
    """One column for each plugin, although a plugin may reject in pre_filter and in filter."""
    merged: dict[str, TableColumn] = {}
    for column in columns:
        before = merged.setdefault(column.plugin, column)
        if before is not column:
            offset = len(before.reasons)
            before.reasons += column.reasons
            pairs = zip(before.codes, column.codes, strict=True)
            before.codes = [first or (second and second + offset) for first, second in pairs]
    return list(merged.values())


def _score(table: PodTable, choice: Choice) -> None:
    feasible = choice.feasible
    table.total = [None] * len(table.nodes)
    if feasible is None or choice.scoring is None:
        return
    rows = np.flatnonzero(feasible).tolist()
    table.total = _spread(choice.total[rows].tolist(), rows, len(table.nodes))
    for column in choice.scoring.columns:
        table.scores.append(
            ScoreColumn(
                plugin=column.runner.name,
                weight=column.runner.weight,
                raw=_spread(column.raw_scores(rows).tolist(), rows, len(table.nodes)),
                weighted=_spread(column.on(rows).tolist(), rows, len(table.nodes)),
            )
        )
    for each in choice.extended:
        raw, weighted = each.raw[rows].tolist(), each.weighted[rows].tolist()
        table.scores.append(
            ScoreColumn(
                plugin=each.name,
                weight=each.weight,
                raw=_spread(raw, rows, len(table.nodes)),
                weighted=_spread(weighted, rows, len(table.nodes)),
            )
        )


def _spread(values: list[Any], rows: list[int], length: int) -> list[int | None]:
    """Return the values at their rows, and None at all others."""
    spread: list[int | None] = [None] * length
    for row, value in zip(rows, values, strict=True):
        spread[row] = value
    return spread
