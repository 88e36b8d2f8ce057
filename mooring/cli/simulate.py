"""`mooring simulate`: run scenarios in virtual time and compare policies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec
from rich.console import Console
from rich.table import Table

from mooring.api.counts import count
from mooring.cli.flags import option
from mooring.cli.simulate_capture import import_command, record
from mooring.cli.simulate_perf import perf
from mooring.cli.simulate_report import export, report
from mooring.cli.simulate_sweep import sweep
from mooring.client.api_errors import ClusterError
from mooring.client.credentials import CredentialsError
from mooring.config import ConfigError
from mooring.framework.registration import RegistrationError
from mooring.runtime.runners import PluginError
from mooring.simulate.compare import compare_tables, explain_divergence, recorded_tables
from mooring.simulate.engine import CoreRun
from mooring.simulate.expect import Verdict, judge
from mooring.simulate.invariants import InvariantError
from mooring.simulate.plan import Plan, compile_plan
from mooring.simulate.policies import Policy
from mooring.simulate.running import RunRecord, folder_of, read_run, run_plan, runs_in
from mooring.simulate.scenario import load_scenario
from mooring.simulate.statistics import Interval, interval, paired
from mooring.simulate.units import format_span, parse_span

FAILED, INVALID = 1, 2
SHOWN = (
    "bound", "throughput.bound_per_second", "pending", "rejected", "evicted", "lost", "wait.mean", "wait.p95",
    "slowdown.mean", "gangs.wait.mean", "gangs.wait.p95", "gangs.wait.censored", "gangs.evicted", "cost",
)  # fmt: skip
SPANS = ("wait.", "makespan", "gangs.wait.mean", "gangs.wait.p")
SHARES = ("allocation.", "utilisation.", "fragmentation.")


class _Group(click.Group):
    """`mooring simulate FILE` runs a scenario; the other commands have names."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            _check_file(args[0], list(self.commands))
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def _check_file(name: str, commands: list[str]) -> None:
    """A word that is no file may be a command with a typing error."""
    close = get_close_matches(name, commands, n=1)
    if close and not Path(name).exists():
        raise click.UsageError(f'no scenario file and no command "{name}"\nhint: did you mean "{close[0]}"?')


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
def simulate() -> None:
    """Simulate scheduling in virtual time: what would happen if.

    `mooring simulate FILE` runs a scenario for each policy and seed, prints a table and leaves the runs in a
    directory. Exits 1 when an expectation of the scenario fails, 2 when the scenario is wrong.
    """


@simulate.command()
@click.argument("file")
@option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME[=FILE]",
    help="Policy to run: one of the scenario, or a name and a configuration file (default: all)",
)
@option("--seeds", metavar="N", type=int, help="Number of seeds (default: those of the scenario)")
@option("--until", metavar="DURATION", help="Virtual time to stop at (default: that of the scenario)")
@option("--out", "out", metavar="DIR", help="Directory of the runs (default: runs/NAME)")
@option("--workers", type=int, default=1, metavar="N", help="Number of processes")
@option("--set", "changes", multiple=True, metavar="PATH=VALUE", help="Replace a value of the scenario")
@option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="At depth perf, run on this API server, which has no scheduler (default: the sandbox)",
)
@option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format")
def run(
    file: str,
    policies: tuple[str, ...],
    seeds: int | None,
    until: str | None,
    out: str | None,
    workers: int,
    changes: tuple[str, ...],
    kubeconfig: str,
    output: str,
) -> None:
    """Run a scenario (the default command)."""
    plan = _plan(file, policies, seeds, until, changes)
    if kubeconfig and plan.depth != "perf":
        _fail(f"--kubeconfig: {file} has depth {plan.depth}\nhint: set depth: perf, or --set depth=perf")
    plan.kubeconfig = kubeconfig
    root = Path(out) if out else Path("runs") / plan.name
    shown = _Shown(len(plan.policies) * len(plan.seeds))
    try:
        records = run_plan(plan, root, workers=workers, progress=shown.progress, done=shown.done)
        verdicts = _judge(plan, root)
    except OSError as error:
        _fail(f"{error.filename or root}: {error.strerror or error}\nhint: --out names another directory")
    except (ValueError, PluginError, InvariantError, ClusterError, CredentialsError) as error:
        _fail(str(error))
    finally:
        shown.close()
    comparisons = _compare(plan, records)
    if output == "json":
        answer = {"scenario": plan.name, "directory": str(root), "runs": records,
                  "comparisons": comparisons, "expectations": verdicts}  # fmt: skip
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n")
    else:
        _print_summary(plan, records)
        _print_comparisons(comparisons)
        _print_recorded(records)
        for verdict in verdicts:
            click.echo(str(verdict))
        click.echo(f"\nruns: {root}")
    if not all(verdict.passed for verdict in verdicts):
        sys.exit(FAILED)


@simulate.command()
@click.argument("file")
@option("--set", "changes", multiple=True, metavar="PATH=VALUE", help="Replace a value of the scenario")
def check(file: str, changes: tuple[str, ...]) -> None:
    """Check a scenario without running it."""
    plan = _plan(file, (), None, None, changes)
    objects, arrivals = plan.inputs(plan.seeds[0])
    parts = [
        count(len(plan.policies), "policy", "policies"),
        count(len(plan.seeds), "seed"),
        count(len(arrivals), "arrival"),
    ]
    kinds = [obj.kind for obj in objects]
    parts += [count(kinds.count(kind), kind) for kind in ("Job", "CronJob") if kind in kinds]
    click.echo(f"{file}: ok: {', '.join(parts)}")


@simulate.command()
@click.argument("first")
@click.argument("second", required=False)
@option(
    "--scenario", "file", metavar="FILE", help="The scenario of the runs, to explain the first difference"
)
@option(
    "--tolerance",
    default=0.0,
    metavar="SECONDS",
    help="Largest mean difference of waiting times to accept (default 0)",
)
@option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format")
def compare(first: str, second: str | None, file: str | None, tolerance: float, output: str) -> None:
    """Compare two runs of the same arrivals, pod by pod; or one run with the recording that it replays.

    Exits 1 when the mean difference of waiting times exceeds the tolerance, or other pods were bound. With a
    recording, exits 1 when a pod is on another node.
    """
    try:
        record_a, a = read_run(_single(first))
        record_b, b = (record_a, a) if second is None else read_run(_single(second))
        if second is None:
            a = recorded_tables(b)
        comparison = compare_tables(a, b)
    except (OSError, ValueError) as error:
        _fail(str(error))
    if output == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(comparison), indent=2) + b"\n")
    else:
        click.echo(f"{count(comparison.pods, 'pod')}; {b.policy} against {a.policy}")
        sooner, later, same_time = comparison.sooner, comparison.later, comparison.same_time
        if second is not None:
            click.echo(f"bound sooner {sooner}, later {later}, at the same time {same_time}")
        click.echo(f"bound on another node {comparison.other_node}")
        click.echo(
            f"bound only in the first {comparison.only_first}, only in the second {comparison.only_second}"
        )
        if second is not None:
            click.echo(f"mean difference of waiting: {comparison.wait_difference:+.4g} s")
        if comparison.divergence is not None:
            where = comparison.divergence
            nodes = f"{where.first_node or 'no node'} against {where.second_node or 'no node'}"
            click.echo(f"first difference: {where.pod} at {format_span(where.time)}: {nodes}")
            if file is not None:
                plan = _plan(file, (), None, None, ())
                named = {policy.name: policy for policy in plan.policies}
                pair = (None if second is None else named[record_a.policy], named[record_b.policy])
                click.echo("\n".join(explain_divergence(plan, pair, record_a.seed, where)))
    differs = bool(comparison.other_node) if second is None else abs(comparison.wait_difference) > tolerance
    if differs or comparison.only_first or comparison.only_second:
        sys.exit(FAILED)


for command in (sweep, report, export, perf, import_command, record):
    simulate.add_command(command)


# ---- reading


def _plan(
    file: str, policies: Sequence[str], seeds: int | None, until: str | None, changes: Sequence[str]
) -> Plan:
    try:
        replaced = dict(map(_change, changes))
        if until is not None:
            replaced["until"] = _until(until)
        plan = compile_plan(load_scenario(file, replaced))
        if seeds is not None:
            if seeds < 1:
                raise ValueError("--seeds: expected at least 1")
            plan.seeds = list(range(plan.seeds[0], plan.seeds[0] + seeds))
        if policies:
            plan.policies = [_policy(text, plan) for text in policies]
            plan.digest += "-policies"
    except OSError as error:
        _fail(f"{error.filename or file}: {error.strerror}")
    except (ConfigError, ValueError, RegistrationError, PluginError) as error:
        _fail(str(error))
    for warning in plan.warnings:
        click.echo(f"warning: {warning}", err=True)
    return plan


def _until(text: str) -> float:
    try:
        return parse_span(text)
    except ValueError as error:
        raise ValueError(f"--until: {error}") from None


def _change(text: str) -> tuple[str, Any]:
    path, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: expected PATH=VALUE")
    try:
        return path, msgspec.yaml.decode(value) if value else ""
    except (msgspec.DecodeError, ImportError):
        return path, value


def _policy(text: str, plan: Plan) -> Policy:
    name, equals, config = text.partition("=")
    policies = {policy.name: policy for policy in plan.policies}
    if not equals:
        if name == "default" and name not in policies:
            return Policy("default", ties=plan.policies[0].ties, folder=plan.policies[0].folder)
        if name not in policies:
            raise ValueError(f"--policy {name}: the scenario has {', '.join(policies)}")
        return policies[name]
    policy = Policy(
        name, str(Path(config).resolve()), ties=plan.policies[0].ties, folder=plan.policies[0].folder
    )
    policy.scheduler(lambda: 0.0, 0)
    return policy


def _single(path: str) -> Path:
    runs = runs_in(Path(path))
    if len(runs) != 1:
        raise ValueError(f"{path}: expected the directory of one run, found {count(len(runs), 'run')}")
    return runs[0]


def _judge(plan: Plan, root: Path) -> list[Verdict]:
    if not plan.expect:
        return []
    runs = [
        read_run(folder_of(root, policy.name, seed))[1] for policy in plan.policies for seed in plan.seeds
    ]
    return judge(plan.expect, runs, plan.load_axis, plan.prices)


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(INVALID)


# ---- showing


class _Shown:
    """Progress on standard error, where that is a terminal."""

    def __init__(self, runs: int) -> None:
        self._runs, self._done = runs, 0
        self._on = sys.stderr.isatty()
        self._last = 0.0

    def progress(self, policy: str, seed: int) -> Callable[[CoreRun], None]:
        began = time.monotonic()

        def show(run: CoreRun) -> None:
            now = time.monotonic()
            if not self._on or now - self._last < 0.2:
                return
            self._last = now
            spent = now - began
            total, arrived = len(run.arrivals), run.arrived
            share = arrived / total if total else run.clock.now / run.until
            left = format_span(spent * (1 - share) / share) if share else "-"
            pods = f"{arrived}/{total}" if total else len(run.log)
            click.echo(
                f"\r\033[K[{self._done + 1}/{self._runs}] {policy} seed {seed}: "
                f"{format_span(run.clock.now)} virtual, {pods} pods, "
                f"{run.attempts / max(spent, 1e-9):.0f} attempts/s, {left} left",
                err=True,
                nl=False,
            )

        return show

    def done(self, record: RunRecord, known: bool) -> None:
        self._done += 1

    def close(self) -> None:
        if self._on:
            click.echo("\r\033[K", err=True, nl=False)


def _print_summary(plan: Plan, records: Sequence[RunRecord]) -> None:
    by_policy = {policy.name: [r for r in records if r.policy == policy.name] for policy in plan.policies}
    names = _columns(records)
    table = Table("POLICY", *[name.upper() for name in names], box=None, header_style="bold", pad_edge=False)
    for policy, mine in by_policy.items():
        cells = [_cell(name, interval([r.metrics.get(name, float("nan")) for r in mine])) for name in names]
        table.add_row(policy, *cells)
    Console(width=None if sys.stdout.isatty() else 240).print(table)
    seeds = (
        f"{len(plan.seeds)} seeds, mean ± 95 % interval" if len(plan.seeds) > 1 else f"seed {plan.seeds[0]}"
    )
    click.echo(f"\n{count(int(records[0].metrics['pods']), 'pod')}, {seeds}")


def _columns(records: Sequence[RunRecord]) -> list[str]:
    """The metrics to show: those that say something here."""
    metrics = [record.metrics for record in records]
    shown = [name for name in SHOWN if any(m.get(name) for m in metrics)]
    allocation = [
        name
        for name in metrics[0]
        if name.startswith(SHARES) and not name.endswith((".peak", ".end", "gpu-count"))
    ]
    return [*shown[:1], *allocation, *shown[1:]]


def _cell(name: str, value: Interval) -> str:
    if value.mean != value.mean:
        return "-"
    if name.startswith(SPANS):
        return format_span(value.mean) + (f" ± {format_span(value.half)}" if value.half else "")
    if name.startswith(SHARES):
        return f"{value.mean:.2f}%" + (f" ± {value.half:.2f}" if value.half else "")
    text = f"{value.mean:.0f}" if value.mean == int(value.mean) else f"{value.mean:.4g}"
    return text + (f" ± {value.half:.2g}" if value.half else "")


def _compare(plan: Plan, records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Paired differences of every other policy to the first, metric by metric."""
    by_policy = {policy.name: [r for r in records if r.policy == policy.name] for policy in plan.policies}
    base, *others = by_policy
    comparisons = []
    for other in others:
        for name in _columns(records):
            pairs = [
                (a.metrics[name], b.metrics[name])
                for a, b in zip(by_policy[base], by_policy[other], strict=True)
                if name in a.metrics and name in b.metrics
            ]
            if pairs:
                difference = paired([a for a, _ in pairs], [b for _, b in pairs])
                comparisons.append(
                    {"policy": other, "against": base, "metric": name, "difference": difference.mean,
                     "interval": difference.half, "significant": difference.significant}
                )  # fmt: skip
    return comparisons


def _print_recorded(records: Sequence[RunRecord]) -> None:
    """How the placements of a replay agree with the recording."""
    for each in records:
        pods = int(each.metrics.get("recorded.pods", 0))
        if pods:
            same = int(each.metrics["recorded.same_node"])
            click.echo(f"{each.policy} seed {each.seed}: {same} of {pods} pods on the recorded node")


def _print_comparisons(comparisons: Sequence[dict[str, Any]]) -> None:
    if not comparisons:
        return
    if all(abs(each["difference"]) < 1e-9 for each in comparisons):
        click.echo(f"\nNo differences to {comparisons[0]['against']}")
        return
    click.echo(f"\nPaired differences to {comparisons[0]['against']}:")
    table = Table("POLICY", "METRIC", "DIFFERENCE", "", box=None, header_style="bold", pad_edge=False)
    for each in comparisons:
        if abs(each["difference"]) < 1e-9:
            continue
        half = f" ± {each['interval']:.3g}" if each["interval"] else ""
        mark = "significant" if each["significant"] else ""
        table.add_row(each["policy"], each["metric"], f"{each['difference']:+.4g}{half}", mark)
    Console(width=None if sys.stdout.isatty() else 240).print(table)
