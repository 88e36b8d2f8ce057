"""`mooring simulate sweep`: a scenario with many values."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec
from rich.console import Console
from rich.table import Table

from mooring.cli.flags import option
from mooring.config import ConfigError
from mooring.runtime.runners import PluginError
from mooring.simulate.invariants import InvariantError
from mooring.simulate.statistics import interval
from mooring.simulate.sweeping import Sweep, grid, parse_values
from mooring.simulate.units import format_span

INVALID = 2
SHOWN = ("bound", "pending", "wait.mean", "wait.p95", "nodes.used", "cost")


@click.command()
@click.argument("file")
@option(
    "--set", "values", multiple=True, metavar="PATH=VALUES", help="Values to try: FIRST..LAST or VALUE,VALUE"
)
@option("--random", "sample", type=click.IntRange(1), metavar="N", help="Try N combinations at random")
@option("--workers", type=int, default=1, metavar="N", help="Number of processes")
@option("--ray", "ray_address", metavar="ADDRESS", help="Run on this Ray cluster, such as auto")
@option("--out", metavar="DIR", help="Directory of the runs (default: runs/NAME-sweep)")
@option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format")
def sweep(
    file: str,
    values: tuple[str, ...],
    sample: int | None,
    workers: int,
    ray_address: str | None,
    out: str | None,
    output: str,
) -> None:
    """Run a scenario with every combination of values, for each policy and seed.

    Runs that exist are not repeated: an interrupted sweep continues where it was. Results do not depend on
    the number of workers.
    """
    try:
        points = grid([parse_values(text) for text in values], sample)
        name = Path(file).stem
        job = Sweep(file, points, Path(out) if out else Path("runs") / f"{name}-sweep")
        for warning in dict.fromkeys(each for plan in job.plans.values() for each in plan.warnings):
            click.echo(f"warning: {warning}", err=True)
        _run(job, workers, ray_address)
    except ImportError:
        _fail("--ray needs Ray\n  hint: pip install 'mooring[ray]'")
    except OSError as error:
        _fail(f"{error.filename or file}: {error.strerror or error}")
    except (ConfigError, ValueError, PluginError, InvariantError) as error:
        _fail(str(error))
    rows = _rows(job)
    if output == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
        return
    names = [name for name in SHOWN if any(row["metrics"].get(name, {}).get("mean") for row in rows)]
    table = Table("POINT", "POLICY", *map(str.upper, names), box=None, header_style="bold", pad_edge=False)
    for row in rows:
        cells = (row["metrics"].get(name, {}).get("mean", float("nan")) for name in names)
        table.add_row(
            row["point"],
            row["policy"],
            *(
                format_span(v) if n.startswith("wait") else f"{v:.6g}"
                for n, v in zip(names, cells, strict=True)
            ),
        )
    Console(width=None if sys.stdout.isatty() else 240).print(table)
    progress = job.progress
    click.echo(f"\n{progress.total} runs, {progress.repeated} of them there already\nruns: {job.root}")


def _run(job: Sweep, workers: int, ray_address: str | None) -> None:
    began, progress, shown = time.monotonic(), job.progress, sys.stderr.isatty()
    for task in job.run(workers, ray_address):
        if shown:
            made = progress.done - progress.repeated
            left = (time.monotonic() - began) / made * (progress.total - progress.done)
            text = f"[{progress.done}/{progress.total}] {task.point.name} {task.policy} seed {task.seed}"
            click.echo(f"\r\033[K{text}, {format_span(left)} left", err=True, nl=False)
    if shown:
        click.echo("\r\033[K", err=True, nl=False)


def _rows(job: Sweep) -> list[dict[str, Any]]:
    """A row per point and policy, with means and intervals over seeds."""
    rows = []
    for point in job.points:
        plan = job.plans[point.name]
        for policy in plan.policies:
            records = [job.records[point.name, policy.name, seed] for seed in plan.seeds]
            metrics = {}
            for name in dict.fromkeys(name for record in records for name in record.metrics):
                mean, half = interval([r.metrics[name] for r in records if name in r.metrics])
                metrics[name] = {"mean": mean, "interval": half}
            rows.append(
                {"point": point.name, "values": point.changes, "policy": policy.name, "metrics": metrics}
            )
    return rows


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(INVALID)
