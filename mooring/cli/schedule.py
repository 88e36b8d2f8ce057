"""`mooring schedule`: schedule manifests in memory and tell where each pod went, and why."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mooring.api.objects import Node, Pod
from mooring.cli.manifests import apply_all, filename_option, make_scheduler, read_manifests
from mooring.cli.plugins import plugin_option
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.explain.explain import decisions
from mooring.explain.outcomes import EVICTED, PENDING, SCHEDULED, Attempts, Outcome
from mooring.explain.report import remedies
from mooring.explain.text import story


@click.command()
@filename_option(required=True)
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

    Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs come with the pods that their controllers
    would make. Nothing outside this process is read or changed, but extenders of the configuration are asked
    (not to bind). Exits 0 when all objects were understood, 1 when some were left out because they are
    malformed, 2 when the configuration, a plugin or a file is wrong.
    """
    objects, complaints = read_manifests(files)
    cluster = MemoryCluster(make_scheduler(config_file, plugins, seed=seed, record=True))
    complaints += apply_all(cluster, objects)
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
        _print_stories(cluster.scheduler, attempts, explain)
    sys.exit(1 if complaints else 0)


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


def _print_stories(scheduler: Scheduler, attempts: Attempts, explain: Iterable[str]) -> None:
    """Every attempt at these pods and, for those that are pending still, what would make them fit."""
    for wanted in explain:
        found = attempts.of(wanted)
        if not found:
            click.echo(f"\n{wanted}: no attempt was made at such a pod", err=True)
        for decision in found:
            click.echo("\n" + "\n".join(story(decision)))
        for key in dict.fromkeys(decision.pod for decision in found):
            told = decisions(scheduler, None, *key.split("/"))
            if told is not None and told.now is not None:
                click.echo("\n".join(remedies(told.now)))
