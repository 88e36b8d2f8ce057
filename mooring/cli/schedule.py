"""`mooring schedule`: schedule manifests in memory and tell where each pod went, and why."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mooring.api.decode import load_sources
from mooring.api.errors import ObjectError
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.cli.plugins import plugin_option, registry_for
from mooring.cluster.memory import MemoryCluster
from mooring.cluster.parallel import Threads
from mooring.config import ConfigError, LoadedConfig, default_config, load
from mooring.core.scheduler import Scheduler
from mooring.explain.outcomes import EVICTED, PENDING, SCHEDULED, Attempts, Outcome
from mooring.explain.text import story
from mooring.framework.registry import RegistrationError
from mooring.framework.runners import PluginError

SUFFIXES = (".yaml", ".yml", ".json")


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Manifests: a file, a directory, or - for standard input; may be given several times.",
)
@click.option("--config", "config_file", metavar="FILE", help="A KubeSchedulerConfiguration.")
@plugin_option
@click.option("--explain", "explain", multiple=True, metavar="POD", help="Tell this pod's whole story.")
@click.option("--seed", default=0, show_default=True, help="Decides among equally good nodes.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def schedule(
    files: tuple[str, ...],
    config_file: str | None,
    plugins: tuple[str, ...],
    explain: tuple[str, ...],
    seed: int,
    output: str,
) -> None:
    """Schedule manifests of nodes and pods in memory, and tell where each pod goes and why.

    Nothing outside this process is read or changed. Exits 0 when all objects were understood, 1 when some
    were left out because they are malformed, 2 when the configuration, a plugin or a file is wrong.
    """
    objects, complaints = _read(files)
    cluster = MemoryCluster(_scheduler(config_file, plugins, seed))
    complaints += _apply(cluster, objects)
    for complaint in complaints:
        click.echo(complaint, err=True)
    attempts = Attempts()
    cluster.run(attempts.add)
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    untried = {pod.key: _untried(cluster, pod) for pod in pods}
    outcomes = attempts.outcomes(pods, cluster.pods, untried)
    if output == "json":
        answer = {"outcomes": outcomes, "decisions": attempts.all()}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n")
    else:
        _print_table(outcomes, sum(isinstance(obj, Node) for obj in objects))
        _print_stories(attempts, explain)
    sys.exit(1 if complaints else 0)


def _read(files: Iterable[str]) -> tuple[list[KubeObject], list[str]]:
    sources = []
    for name in files:
        if name == "-":
            sources.append((sys.stdin.read(), "<stdin>"))
            continue
        path = Path(name)
        inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
        for each in inside:
            try:
                sources.append((each.read_text(), str(each)))
            except OSError as exc:
                raise click.UsageError(f"{each}: {exc.strerror}") from None
    manifests = load_sources(sources)
    for ignored in manifests.ignored:
        click.echo(f"ignored: {ignored}", err=True)
    return manifests.objects, [f"left out: {problem}" for problem in manifests.problems]


def _scheduler(config_file: str | None, plugins: Iterable[str], seed: int) -> Scheduler:
    try:
        config = LoadedConfig(default_config()) if config_file is None else load(config_file)
        for warning in config.warnings:
            click.echo(f"warning: {warning}", err=True)
        return Scheduler(
            config,
            clock=time.time,
            pick=random.Random(seed).randrange,
            registry=registry_for(plugins),
            record=True,
            parallelize=Threads(config.config.parallelism),
        )
    except (ConfigError, RegistrationError, PluginError) as exc:
        click.echo(str(exc), err=True)
        sys.exit(2)
    except OSError as exc:
        click.echo(f"{config_file}: {exc.strerror}", err=True)
        sys.exit(2)


def _apply(cluster: MemoryCluster, objects: Iterable[KubeObject]) -> list[str]:
    """Give the objects to the cluster, pods last; those that it cannot take are named."""
    complaints = []
    for obj in sorted(objects, key=lambda obj: isinstance(obj, Pod)):
        try:
            cluster.apply(obj)
        except ObjectError as exc:
            complaints.append(f"left out: {exc}")
    return complaints


def _untried(cluster: MemoryCluster, pod: Pod) -> str:
    """Why no attempt was made at a pod."""
    if pod.spec.scheduler_name not in cluster.scheduler.profiles:
        return f'no profile is named "{pod.spec.scheduler_name}"'
    queued = cluster.scheduler.queue.get(pod.key)
    if queued is not None and queued.gated:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return f"held back by {queued.gating_plugin}" + (f": {gates}" if gates else "")
    return "not tried"


def _print_table(outcomes: list[Outcome], nodes: int) -> None:
    rows = [(o.pod, o.node or f"<{o.state}>", o.why) for o in outcomes]
    console = Console()
    if console.is_terminal:
        table = Table("POD", "NODE", "WHY", box=None, header_style="bold", pad_edge=False)
        styles = {SCHEDULED: "green", PENDING: "yellow", EVICTED: "red"}
        for outcome, (pod, node, why) in zip(outcomes, rows, strict=True):
            table.add_row(escape(pod), f"[{styles[outcome.state]}]{escape(node)}[/]", escape(why))
        console.print(table)
    else:
        heads = ("POD", "NODE", "WHY")
        pod_width, node_width = (max(len(row[i]) for row in (heads, *rows)) for i in (0, 1))
        for pod, node, why in (heads, *rows):
            click.echo(f"{pod:<{pod_width}}  {node:<{node_width}}  {why}")
    counts = Counter(outcome.state for outcome in outcomes)
    tried = counts[SCHEDULED] + counts[PENDING]
    evicted = f", {counts[EVICTED]} evicted" if counts[EVICTED] else ""
    click.echo(f"\n{counts[SCHEDULED]} of {tried} pods scheduled on {nodes} nodes{evicted}")


def _print_stories(attempts: Attempts, explain: Iterable[str]) -> None:
    for wanted in explain:
        found = attempts.of(wanted)
        if not found:
            click.echo(f"\n{wanted}: no attempt was made at such a pod", err=True)
        for decision in found:
            click.echo("\n" + "\n".join(story(decision)))
