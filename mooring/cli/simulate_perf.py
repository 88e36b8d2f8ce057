"""`mooring simulate perf`: workloads of Kubernetes' scheduler_perf from their own files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import click
import msgspec
from rich.console import Console
from rich.table import Table

from mooring.cli.flags import option
from mooring.client.api_errors import ClusterError
from mooring.client.credentials import CredentialsError
from mooring.config import ConfigError
from mooring.simulate.perf.measuring import with_all_labels
from mooring.simulate.perf.running import Outcome, run_workload
from mooring.simulate.perf.suite import THROUGHPUT, LabelFilter, Operation, Run, load_suite

FAILED, INVALID = 1, 2


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option(
    "--labels",
    default="",
    metavar="LABELS",
    help="Labels to select workloads by, such as short,-performance",
)
@option(
    "--name", "names", multiple=True, metavar="TEXT", help="Run workloads whose CASE/WORKLOAD contains this"
)
@option("--list", "listing", is_flag=True, help="List the workloads and do not run them")
@option("--virtual", is_flag=True, help="Run in virtual time: final states only, no throughput")
@option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Run on this API server, without another scheduler (default: the sandbox)",
)
@option(
    "--config", default="", metavar="FILE", help="Scheduler configuration (default: that of each test case)"
)
@option("--out", default="", metavar="DIR", help="Write results and progress to this directory")
@option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format")
def perf(
    files: tuple[str, ...],
    labels: str,
    names: tuple[str, ...],
    listing: bool,
    virtual: bool,
    kubeconfig: str,
    config: str,
    out: str,
    output: str,
) -> None:
    """Run workloads of scheduler_perf, Kubernetes' scheduler benchmark, from its configuration files.

    Workloads run in wall-clock time on the sandbox, or on a real API server. Results are compared with the
    thresholds in the files. Exits 1 when a workload fails or misses its threshold, 2 when a file is invalid.
    """
    runs = _load(files, LabelFilter(labels), names)
    if listing:
        for run in runs:
            click.echo(f"{run.name}  {','.join(sorted(run.labels))}".rstrip())
        return
    if virtual and kubeconfig:
        _fail("--virtual and --kubeconfig are mutually exclusive")
    outcomes = []
    try:
        for index, run in enumerate(runs):
            shown = _Shown(index, len(runs), run)
            outcomes.append(
                run_workload(run, virtual=virtual, kubeconfig=kubeconfig, config=config, shown=shown)
            )
            shown.close(outcomes[-1])
    except (ConfigError, ClusterError, CredentialsError, OSError, ValueError) as error:
        _fail(str(error))
    if out:
        _write(Path(out), outcomes)
    if output == "json":
        items = with_all_labels([item for outcome in outcomes for item in outcome.items])
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(items), indent=2) + b"\n")
    else:
        _print(outcomes)
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        sys.exit(FAILED)


def _load(files: Iterable[str], labels: LabelFilter, names: Sequence[str]) -> list[Run]:
    runs: list[Run] = []
    try:
        for file in files:
            path = Path(file)
            runs += load_suite(path / "performance-config.yaml" if path.is_dir() else path)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}")
    except ConfigError as error:
        _fail(str(error))
    chosen = [
        run
        for run in runs
        if labels.matches(run.labels) and (not names or any(text in run.name for text in names))
    ]
    if not chosen:
        _fail(f"none of {len(runs)} workloads matches\n  hint: --list without --labels shows them")
    for run in chosen:
        if run.unused_params:
            click.echo(f"{run.name}: no operation uses {', '.join(run.unused_params)}", err=True)
    return chosen


class _Shown:
    """Progress on standard error: the operation that runs."""

    def __init__(self, index: int, count: int, run: Run) -> None:
        self._head, self._operations = f"[{index + 1}/{count}] {run.name}", len(run.operations)
        self._on = sys.stderr.isatty()

    def __call__(self, index: int, operation: Operation) -> None:
        if self._on:
            text = f"\r\033[K{self._head}: {operation.opcode} ({index + 1}/{self._operations})"
            click.echo(text, err=True, nl=False)

    def close(self, outcome: Outcome) -> None:
        if self._on:
            click.echo("\r\033[K", err=True, nl=False)


def _write(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Results as scheduler_perf writes them, and its progress files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        items = with_all_labels([item for outcome in outcomes for item in outcome.items])
        text = msgspec.json.format(msgspec.json.encode(items), indent=2)
        (folder / "BenchmarkPerfScheduling.json").write_bytes(text + b"\n")
        for outcome in outcomes:
            lines = [
                f"{each.seconds:.3f} {each.completed} {each.attempts} {each.observed} {each.rate:.3f}\n"
                for each in outcome.progress
            ]
            (folder / f"{outcome.name.replace('/', '_')}.dat").write_text("".join(lines))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}")


def _print(outcomes: Sequence[Outcome]) -> None:
    columns = [
        "WORKLOAD",
        "NODES",
        "PODS",
        "SCHEDULED",
        "ATTEMPTS",
        "SECONDS",
        "PODS/S",
        "P99",
        "THRESHOLD",
        "RESULT",
    ]
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for outcome in outcomes:
        rates = [item.data for item in outcome.items if item.labels["Metric"] == THROUGHPUT]
        rate = rates[-1] if rates else {}
        limits = [
            value for item in outcome.items for name, value in item.data.items() if name.endswith("Threshold")
        ]
        cells = [f"{rate[name]:.0f}" if name in rate else "-" for name in ("Average", "Perc99")]
        table.add_row(
            outcome.name,
            *map(str, (outcome.nodes, outcome.pods, outcome.scheduled, outcome.attempts)),
            f"{outcome.seconds:.1f}",
            *cells,
            f"{limits[-1]:g}" if limits else "-",
            "ok" if outcome.passed else "FAILED",
        )
    Console(width=None if sys.stdout.isatty() else 240).print(table)


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(INVALID)
