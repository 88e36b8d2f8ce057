"""What a report shows of runs: each function makes one chart, or nothing where the runs have no such data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

import numpy as np

from mooring.simulate.arrivals import FloatArray
from mooring.simulate.metrics import allocation_steps, arrived_curve, capacity_steps, steps, value_at
from mooring.simulate.pod_log import Outcome
from mooring.simulate.report.charts import (
    MOST_BARS,
    Bar,
    Line,
    Span,
    bar_chart,
    gantt_chart,
    line_chart,
)
from mooring.simulate.report.images import heat_map
from mooring.simulate.running import RunRecord
from mooring.simulate.statistics import interval
from mooring.simulate.tables import Tables
from mooring.simulate.units import format_span

GRID = 300  # points in time
MOST_ROWS, MOST_COLUMNS = 400, 400  # of a heat map
MOST_NODES = 24  # of a Gantt chart
BARS_OF_PAGE = 6000  # of all Gantt charts together
MOST_GROUPS = 7  # namespaces with a colour of their own
Runs = Mapping[str, Sequence[Tables]]
"""By policy."""


def percent(value: float) -> str:
    return f"{value:g}%"


def number(value: float) -> str:
    return f"{value:g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _over_time(runs: Runs, curve: Callable[[Tables, FloatArray], FloatArray]) -> list[Line]:
    """The mean over seeds at points in time, with the band between quartiles."""
    end = max(tables.end for each in runs.values() for tables in each)
    grid = np.linspace(0.0, end, GRID)
    lines = []
    for policy, each in runs.items():
        values = np.stack([curve(tables, grid) for tables in each])
        low, high = (np.percentile(values, q, axis=0) for q in (25, 75))
        several = len(each) > 1
        mean = values.mean(axis=0)
        lines.append(Line(policy, grid, mean, low if several else None, high if several else None))
    return lines


def allocation(runs: Runs) -> Iterator[str]:
    """Allocation of each resource over time."""
    for resource in _resources(runs):

        def share(tables: Tables, grid: FloatArray, resource: str = resource) -> FloatArray:
            used = value_at(*allocation_steps(tables, resource), grid)
            capacity = value_at(*capacity_steps(tables, resource), grid)
            return 100 * np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)

        yield line_chart(
            _over_time(runs, share), f"Allocated {resource} over time", x_text=format_span, y_text=percent
        )


def allocation_by_namespace(runs: Runs) -> Iterator[str]:
    """Requested CPU by namespace, of the first policy and seed."""
    policy, tables = _first(runs)
    resource = next(iter(_resources(runs)), "")
    names = _groups(tables)
    if not resource or len(names) < 2:
        return
    pods = tables.pods
    bound = ~np.isnan(pods.bound)
    stop = np.where(np.isnan(pods.ended), np.inf, pods.ended)
    amounts, spaces = tables.requests(resource), _namespaces(tables)
    grid = np.linspace(0.0, tables.end, GRID)
    total, lines = np.zeros(GRID), []
    for name in names:
        here = bound & (spaces == name)
        total = total + value_at(*steps(pods.bound[here], stop[here], amounts[here]), grid)
        lines.append(Line(name, grid, total.copy()))
    label = f"Requested {resource} by namespace, stacked ({policy})"
    yield line_chart(lines, label, x_text=format_span, y_text=number)


def pending(runs: Runs) -> Iterator[str]:
    def count(tables: Tables, grid: FloatArray) -> FloatArray:
        pods = tables.pods
        gone = np.where(np.isnan(pods.bound), np.where(np.isnan(pods.ended), np.inf, pods.ended), pods.bound)
        return value_at(*steps(pods.created, gone, np.ones(len(pods))), grid)

    yield line_chart(_over_time(runs, count), "Pending pods over time", x_text=format_span, y_text=number)


def waiting(runs: Runs) -> Iterator[str]:
    """Distribution of waiting, of all pods and by priority. Pods never bound keep lines below 100 %."""
    priorities = sorted({shape.priority for each in runs.values() for t in each for shape in t.shapes})
    groups: list[int | None] = [None, *(priorities if 1 < len(priorities) <= 4 else [])]
    for priority in groups:
        lines: list[Line] = []
        for policy, each in runs.items():
            waits: list[FloatArray] = []
            total = 0
            for tables in each:
                pods = tables.pods
                here = _priorities(tables) == priority if priority is not None else np.ones(len(pods), bool)
                total += int(here.sum())
                wait = (pods.bound - pods.created)[here]
                waits.append(wait[~np.isnan(wait)])
            ordered = np.sort(np.concatenate(waits))
            if len(ordered):
                share = 100 * np.arange(1, len(ordered) + 1) / total
                lines.append(Line(policy, np.maximum(ordered, 0.001), share))
        last = max((float(line.x[-1]) for line in lines), default=0.0)
        lines = [Line(line.name, np.append(line.x, last), np.append(line.y, line.y[-1])) for line in lines]
        of = "" if priority is None else f", priority {priority}"
        yield line_chart(
            lines,
            f"Share of pods bound within a time{of}",
            x_text=format_span,
            y_text=percent,
            x_log=True,
            x_label="waiting (log)",
        )


def arrived_load(runs: Runs, load_axis: str) -> Iterator[str]:
    """Allocation and probes against the load that has arrived."""
    resource = load_axis or next(iter(_resources(runs)), "")
    if resource:
        lines = []
        for policy, each in runs.items():
            curves = [
                arrived_curve(tables, resource) for tables in each if resource in tables.nodes.resources
            ]
            lines += _banded(policy, [(100 * a, 100 * b) for a, b in curves if len(a)])
        label = f"Allocated {resource} against the load that has arrived"
        yield line_chart(lines, label, x_text=percent, y_text=percent, step=False, x_label="arrived")
    columns = dict.fromkeys(
        name for each in runs.values() for t in each for name in t.samples if name not in ("time", "arrived")
    )
    for column in columns:
        lines = []
        for policy, each in runs.items():
            curves = [(t.samples["arrived"], t.samples[column]) for t in each if column in t.samples]
            lines += _banded(policy, curves)
        yield line_chart(
            lines, f"{column} against arrivals", x_text=number, y_text=number, step=False, x_label="pods"
        )


def _banded(policy: str, curves: Sequence[tuple[FloatArray, FloatArray]]) -> list[Line]:
    """Curves of several seeds as one, with the band between quartiles."""
    if not curves:
        return []
    grid = np.linspace(0.0, min(float(x[-1]) for x, _ in curves), GRID)
    values = np.stack([np.interp(grid, x, y) for x, y in curves])
    low, high = (np.percentile(values, q, axis=0) for q in (25, 75))
    several = len(curves) > 1
    mean = values.mean(axis=0)
    return [Line(policy, grid, mean, low if several else None, high if several else None)]


def bars(records: Mapping[str, Sequence[RunRecord]]) -> Iterator[str]:
    """Key metrics with their 95 % intervals."""
    labels: dict[str, tuple[str, Callable[[float], str]]] = {
        "wait.p95": ("95th percentile of waiting", format_span),
        "wait.mean": ("Mean waiting", format_span),
        "wait.censored": ("Pods never bound", number),
        "gangs.wait.mean": ("Mean waiting of gangs", format_span),
        "gangs.wait.p95": ("95th percentile of waiting of gangs", format_span),
        "gangs.wait.censored": ("Gangs that never started", number),
        "gangs.held_seconds": ("Time of pods on nodes before their gang started", format_span),
        "slowdown.mean": ("Mean bounded slowdown", number),
        "evicted": ("Pods evicted by preemption", number),
        "lost_work_seconds": ("Work lost by eviction and failure", format_span),
        "nodes.used": ("Nodes used", number),
        "cost": ("Cost", number),
    }
    for metric, (label, text) in labels.items():
        policy_bars = []
        for policy, each in records.items():
            values = [record.metrics[metric] for record in each if metric in record.metrics]
            if values:
                mean, half = interval(values)
                policy_bars.append(Bar(policy, mean, half))
        if any(bar.value for bar in policy_bars):
            yield bar_chart(policy_bars, label, text)


def gangs(records: Mapping[str, Sequence[RunRecord]]) -> Iterator[str]:
    """What gangs leave of each resource: in use, and free where no pod fits."""
    names = dict.fromkeys(
        name
        for each in records.values()
        for record in each
        for name in record.metrics
        if name.startswith(("utilisation.", "fragmentation."))
    )
    for name in names:
        kind, _, resource = name.partition(".")
        label = f"{kind.capitalize()} of {resource}"
        values = {
            policy: [r.metrics[name] for r in each if name in r.metrics] for policy, each in records.items()
        }
        yield bar_chart([Bar(p, *interval(v)) for p, v in values.items() if v], label, lambda v: f"{v:.1f}%")


def pareto(records: Mapping[str, Sequence[RunRecord]]) -> Iterator[str]:
    """Cost, or nodes used, against waiting: one point per policy."""
    points = []
    cost = "cost" if all("cost" in r.metrics for each in records.values() for r in each) else "nodes.used"
    for policy, each in records.items():
        if all("wait.p95" in r.metrics for r in each):
            x = interval([r.metrics[cost] for r in each]).mean
            points.append((policy, x, interval([r.metrics["wait.p95"] for r in each]).mean))
    if len(points) > 2:
        rows = "".join(
            f"<tr><td>{escape(p)}</td><td>{number(x)}</td><td>{format_span(y)}</td>"
            f"<td>{'yes' if _best(points, x, y) else ''}</td></tr>"
            for p, x, y in sorted(points, key=lambda point: point[1])
        )
        head = f"<tr><th>policy</th><th>{cost}</th><th>wait.p95</th><th>on the Pareto front</th></tr>"
        yield f"<figure><figcaption>Cost against waiting</figcaption><table>{head}{rows}</table></figure>"


def _best(points: Sequence[tuple[str, float, float]], x: float, y: float) -> bool:
    return not any(a <= x and b <= y and (a, b) != (x, y) for _, a, b in points)


def node_types(runs: Runs) -> Iterator[str]:
    """Nodes over time by type, where their number changes."""
    policy, tables = _first(runs)
    nodes = tables.nodes
    if not ((nodes.added > 0).any() or np.isfinite(nodes.removed).any()):
        return
    grid = np.linspace(0.0, tables.end, GRID)
    kinds = np.array([kind or "node" for kind in nodes.type], dtype=object)
    total, lines = np.zeros(GRID), []
    for kind in sorted(set(kinds)):
        here = kinds == kind
        total = total + value_at(*steps(nodes.added[here], nodes.removed[here], np.ones(here.sum())), grid)
        lines.append(Line(str(kind), grid, total.copy()))
    yield line_chart(lines, f"Nodes over time by type, stacked ({policy})", x_text=format_span, y_text=number)


def preemptions(runs: Runs) -> Iterator[str]:
    """Who was evicted, by priority."""
    rows = []
    for policy, each in runs.items():
        for tables in each[:1]:
            evicted = tables.pods.outcome == Outcome.EVICTED
            for priority in np.unique(_priorities(tables)[evicted]).tolist():
                count = int((evicted & (_priorities(tables) == priority)).sum())
                again = int((evicted[tables.pods.replaces] & (tables.pods.replaces >= 0)).sum())
                rows.append(
                    f"<tr><td>{escape(policy)}</td><td>{priority}</td><td>{count}</td><td>{again}</td></tr>"
                )
    if rows:
        head = "<tr><th>policy</th><th>priority of victims</th><th>victims</th><th>replaced</th></tr>"
        yield f"<figure><figcaption>Preemption</figcaption><table>{head}{''.join(rows)}</table></figure>"


def heat_maps(runs: Runs) -> Iterator[str]:
    """Allocation of every node over time, of the first seed of each policy."""
    resource = next(iter(_resources(runs)), "")
    for policy, each in runs.items():
        tables = each[0]
        if resource and len(tables.nodes.name) > 1 and tables.end > 0:
            image = heat_map(_node_shares(tables, resource))
            label = f"Allocated {resource} of each node over {format_span(tables.end)} ({policy})"
            text = f"{len(tables.nodes.name)} nodes, the first at the top; time from left to right"
            yield (
                f"<figure><figcaption>{escape(label)}</figcaption>"
                f'<img class="heat" src="{image}" alt="{escape(label)}"><small>{text}</small></figure>'
            )


def _node_shares(tables: Tables, resource: str) -> FloatArray:
    """Time-weighted shares by group of nodes and slice of time."""
    pods, nodes = tables.pods, tables.nodes
    columns, count = MOST_COLUMNS, len(nodes.name)
    rows = min(count, MOST_ROWS)
    width = tables.end / columns
    here = ~np.isnan(pods.bound) & (pods.node >= 0)
    amounts = tables.requests(resource)[here]
    start = pods.bound[here] / width
    stop = np.where(np.isnan(pods.ended), tables.end, pods.ended)[here] / width
    row = pods.node[here] * rows // count
    changes = np.zeros((rows, columns + 1))  # of the slope: a pod counts in parts in its first and last slice
    for at, sign in ((start, 1.0), (stop, -1.0)):
        cell = np.minimum(at.astype(int), columns - 1)
        part = at - cell
        np.add.at(changes, (row, cell), sign * amounts * (1 - part))
        np.add.at(changes, (row, cell + 1), sign * amounts * part)
    used = np.cumsum(changes[:, :columns], axis=1)
    capacity = np.bincount(np.arange(count) * rows // count, nodes.resources[resource], rows)
    shares: FloatArray = used / np.maximum(capacity, 1e-9)[:, None]
    return shares


def gantt(runs: Runs) -> Iterator[str]:
    """Pods on some nodes in the middle of the run, coloured by namespace."""
    most = max(min(MOST_BARS, BARS_OF_PAGE // len(runs)), 2)
    for policy, each in runs.items():
        tables = each[0]
        pods = tables.pods
        rows = np.flatnonzero(~np.isnan(pods.bound) & (pods.node >= 0) & (pods.node < MOST_NODES))
        if not len(rows) or tables.end <= 0:
            continue
        if len(rows) > most:  # a window with about as many
            middle = len(rows) // 2
            rows = rows[middle - most // 2 : middle + most // 2]
        names = _groups(tables)
        colour = {name: i for i, name in enumerate(names)}
        spaces = _namespaces(tables)
        stop = np.where(np.isnan(pods.ended), tables.end, pods.ended)
        spans = [
            Span(
                int(pods.node[row]),
                float(pods.bound[row]),
                float(stop[row]),
                colour.get(spaces[row], MOST_GROUPS),
                f"{spaces[row]}/{pods.name[row]}: {format_span(float(stop[row] - pods.bound[row]))}",
            )
            for row in rows.tolist()
        ]
        yield gantt_chart(
            spans,
            tables.nodes.name[:MOST_NODES],
            f"Pods on nodes ({policy})",
            format_span,
            names if len(names) > 1 else [],
        )


def _first(runs: Runs) -> tuple[str, Tables]:
    policy, each = next(iter(runs.items()))
    return policy, each[0]


def _resources(runs: Runs) -> list[str]:
    return list(dict.fromkeys(name for each in runs.values() for t in each for name in t.resources()))


def _namespaces(tables: Tables) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    return np.array([shape.namespace for shape in tables.shapes] or [""], dtype=object)[tables.pods.shape]


def _priorities(tables: Tables) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([shape.priority for shape in tables.shapes] or [0], np.int64)[tables.pods.shape]


def _groups(tables: Tables) -> list[str]:
    """The namespaces with most pods."""
    names, counts = np.unique(_namespaces(tables).astype(str), return_counts=True)
    return [str(names[i]) for i in np.argsort(-counts, kind="stable")[:MOST_GROUPS]]
