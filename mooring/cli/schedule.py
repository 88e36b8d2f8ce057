"""`mooring schedule`: schedule manifests in memory and show where each pod goes and why."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mooring.api.objects import Node, Pod
from mooring.api.printable import printable
from mooring.cli.flags import option
from mooring.cli.manifests import (
    SchedulerMaker,
    apply_all,
    filename_option,
    missing_from_dump,
    read_manifests,
)
from mooring.cli.output import echo, write_data
from mooring.cli.plugins import plugin_option
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.explain import words
from mooring.explain.explain import decisions
from mooring.explain.outcomes import EVICTED, PENDING, SCHEDULED, Attempts, Outcome
from mooring.explain.report import remedies
from mooring.explain.text import story

SOME_PENDING = 3


@click.command()
@filename_option(required=True)
@option("--config", "config_file", metavar="FILE", help="KubeSchedulerConfiguration file")
@plugin_option
@option(
    "--explain", "explain", multiple=True, metavar="POD", help="Explain every attempt at this pod; repeatable"
)
@option(
    "--seed",
    type=int,
    default=0,
    metavar="N",
    help="Seed for choosing among nodes of equal score (default 0)",
)
@option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Output format")
@option("--fail-on-pending", is_flag=True, help="Exit with code 3 if a pod stays pending")
def schedule(
    files: tuple[str, ...],
    config_file: str | None,
    plugins: tuple[str, ...],
    explain: tuple[str, ...],
    seed: int,
    output: str,
    fail_on_pending: bool,
) -> None:
    """Schedule manifests of nodes and pods in memory, and show where each pod goes and why.

    Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs are expanded to the pods that their
    controllers would create, and ResourceClaimTemplates to claims. No cluster is read or changed. Extenders
    of the configuration are called, except to bind.

    \b
    Exit codes:
      0  all objects were valid
      1  some objects were skipped because they are invalid, or --explain names no pod
      2  invalid usage, configuration, plugin or file
      3  some pods are pending, with --fail-on-pending
    """
    maker = SchedulerMaker(config_file, plugins, seed=seed, record=True)
    objects, problems = read_manifests(files, maker.kinds())
    cluster = MemoryCluster(maker.make(objects))
    problems += apply_all(cluster, objects)
    for problem in problems:
        echo(problem, err=True)
    for warning in missing_from_dump(objects, [obj for obj in objects if isinstance(obj, Pod)]):
        echo(warning, err=True)
    attempts = Attempts()
    cluster.run(attempts.add)
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    untried = {pod.key: _untried(cluster, pod) for pod in pods}
    outcomes = attempts.outcomes(pods, cluster.pods, untried)
    unknown = [name for name in explain if not any(name in (pod.key, pod.name) for pod in pods)]
    if output == "table":
        running = sum(bool(pod.spec.node_name) and pod.active and pod.uid in cluster.pods for pod in pods)
        _print_table(outcomes, sum(isinstance(obj, Node) for obj in objects), running)
        _print_stories(cluster.scheduler, attempts, [name for name in explain if name not in unknown])
    else:
        write_data({"outcomes": outcomes, "decisions": attempts.all()}, output)
    for name in unknown:
        echo(f"--explain {name}: no such pod in the manifests", err=True)
    if problems or unknown:
        sys.exit(1)
    if fail_on_pending and any(outcome.state == PENDING for outcome in outcomes):
        sys.exit(SOME_PENDING)


def _untried(cluster: MemoryCluster, pod: Pod) -> str:
    """Return why the pod was not attempted."""
    if pod.spec.scheduler_name not in cluster.scheduler.profiles:
        return f'no profile has schedulerName "{pod.spec.scheduler_name}"'
    queued = cluster.scheduler.queue.get(pod.key)
    if queued is not None and queued.gated:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        profile = cluster.scheduler.profiles[pod.spec.scheduler_name]
        return f"gated by {queued.gating_plugin}: {gates or profile.pre_enqueue(queued.pod).message}"
    return "not attempted"


def _print_table(outcomes: list[Outcome], nodes: int, running: int) -> None:
    rows = [(printable(o.pod), o.node or f"<{o.state}>", printable(o.why)) for o in outcomes]
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
            echo(f"{pod:<{pod_width}}  {node:<{node_width}}  {why}")
    counts = Counter(outcome.state for outcome in outcomes)
    tried = counts[SCHEDULED] + counts[PENDING]
    evicted = f", {counts[EVICTED]} evicted" if counts[EVICTED] else ""
    already = f", {running} already had a node" if running else ""
    total = f"{words.count(tried, 'pod')} scheduled on {words.count(nodes, 'node')}"
    echo(f"\n{counts[SCHEDULED]} of {total}{evicted}{already}")


def _print_stories(scheduler: Scheduler, attempts: Attempts, explain: Iterable[str]) -> None:
    """Print every attempt at these pods and, for those still pending, what would make them fit."""
    for name in explain:
        made = attempts.of(name)
        if not made:
            echo(f"\npod {name}: no scheduling attempt", err=True)
        for decision in made:
            echo("\n" + "\n".join(story(decision)))
        for key in dict.fromkeys(decision.pod for decision in made):
            explanation = decisions(scheduler, None, *key.split("/"))
            if explanation is not None and explanation.now is not None:
                echo("\n".join(remedies(explanation.now)))
