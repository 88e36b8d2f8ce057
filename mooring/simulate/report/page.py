"""The page of a report: one HTML file that works offline, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from mooring.api.counts import count
from mooring.simulate.report import sections
from mooring.simulate.report.style import STYLE
from mooring.simulate.running import RunRecord
from mooring.simulate.statistics import interval, paired
from mooring.simulate.tables import Tables
from mooring.simulate.units import format_span

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
NOISE = 1e-9  # of a value: what rounding leaves
_SPANS = ("wait.mean", "wait.p", "wait.max", "makespan")


def report_page(runs: Sequence[tuple[RunRecord, Tables]], title: str = "", load_axis: str = "") -> str:
    """The page about runs. Raises ValueError where there are none."""
    if not runs:
        raise ValueError("no runs to report on")
    policies = list(dict.fromkeys(record.policy for record, _ in runs))
    tables = {name: [t for record, t in runs if record.policy == name] for name in policies}
    records = {name: [record for record, _ in runs if record.policy == name] for name in policies}
    title = title or runs[0][0].scenario
    charts = [
        *sections.allocation(tables),
        *sections.pending(tables),
        *sections.waiting(tables),
        *sections.arrived_load(tables, load_axis),
        *sections.bars(records),
        *sections.gangs(records),
        *sections.pareto(records),
        *sections.preemptions(tables),
        *sections.node_types(tables),
        *sections.allocation_by_namespace(tables),
        *sections.heat_maps(tables),
        *sections.gantt(tables),
    ]
    seeds = sorted({record.seed for record, _ in runs})
    pods = len(runs[0][1].pods)
    intro = (
        f"{count(len(runs), 'run')}: {count(len(policies), 'policy', 'policies')}, "
        f"{count(len(seeds), 'seed')}; {count(pods, 'pod')} on {count(len(runs[0][1].nodes.name), 'node')}; "
        f"{format_span(runs[0][1].end)} of virtual time. "
        "Lines are means over seeds, bands reach from the 25th to the 75th percentile, whiskers are 95 % "
        "intervals. Every number is in the tables of the runs."
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1><p>{escape(intro)}</p>"
        f"<h2>Summary</h2>{_summary(records)}{_differences(records)}"
        f"<h2>Charts</h2><main>{''.join(charts)}</main>"
        f"<h2>Runs</h2>{_runs(record for record, _ in runs)}</body></html>\n"
    )


def _summary(records: Mapping[str, Sequence[RunRecord]]) -> str:
    names = dict.fromkeys(name for each in records.values() for record in each for name in record.metrics)
    head = "".join(f"<th>{escape(policy)}</th>" for policy in records)
    rows = []
    for name in names:
        cells = []
        for each in records.values():
            mean, half = interval([r.metrics[name] for r in each if name in r.metrics])
            cells.append(f"<td>{escape(_show(name, mean))}{f' ± {_show(name, half)}' if half else ''}</td>")
        rows.append(f"<tr><td>{escape(name)}</td>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table><tr><th>metric</th>{head}</tr>{"".join(rows)}</table></div>'


def _differences(records: Mapping[str, Sequence[RunRecord]]) -> str:
    """Paired differences that are significant, of each policy to the first."""
    base, *others = records
    rows = []
    for other in others:
        by_seed = {record.seed: record for record in records[other]}
        pairs = [(record, by_seed[record.seed]) for record in records[base] if record.seed in by_seed]
        for name in dict.fromkeys(name for record, _ in pairs for name in record.metrics):
            values = [
                (a.metrics[name], b.metrics[name])
                for a, b in pairs
                if name in a.metrics and name in b.metrics
            ]
            difference = paired([a for a, _ in values], [b for _, b in values])
            scale = max(abs(a) for a, _ in values) if values else 0.0
            if difference.significant and abs(difference.mean) > NOISE * scale:
                cells = (other, name, f"{difference.mean:+.4g}", f"± {difference.half:.3g}")
                rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    if not rows:
        return ""
    head = "<tr><th>policy</th><th>metric</th><th>difference</th><th>95 % interval</th></tr>"
    title = f"<h2>Significant differences to {escape(base)}, seed by seed</h2>"
    return f'{title}<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _runs(records: Iterable[RunRecord]) -> str:
    rows = "".join(
        f"<tr><td>{escape(r.policy)}</td><td>{r.seed}</td><td>{format_span(r.virtual_seconds)}</td>"
        f"<td>{r.attempts}</td><td>{escape(r.digest)}</td><td>{escape(r.version)}</td></tr>"
        for r in records
    )
    head = "".join(f"<th>{name}</th>" for name in ("policy", "seed", "time", "attempts", "digest", "version"))
    return f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


def _show(name: str, value: float) -> str:
    if value != value:
        return "-"
    if name.startswith(_SPANS):
        return format_span(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:.4g}"
