"""`mooring schedule`: schedule manifests in memory and show where each pod goes and why."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

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
from mooring.cli.what_if import with_nodes, without_pods
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.explain import words
from mooring.explain.explain import decisions
from mooring.explain.outcomes import EVICTED, PENDING, SCHEDULED, Attempts, GroupOutcome, Outcome
from mooring.explain.report import remedies
from mooring.explain.text import story

SOME_PENDING = 3

Row = tuple[str, str, str]


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
@option(
    "--add-node",
    "add_nodes",
    multiple=True,
    metavar="NAME[=COUNT]",
    help="What if there were more nodes like this one; repeatable",
)
@option(
    "--without", "without", multiple=True, metavar="POD", help="What if this pod were not there; repeatable"
)
@option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Output format")
@option("--fail-on-pending", is_flag=True, help="Exit with code 3 if a pod stays pending")
def schedule(
    files: tuple[str, ...],
    config_file: str | None,
    plugins: tuple[str, ...],
    explain: tuple[str, ...],
    seed: int,
    add_nodes: tuple[str, ...],
    without: tuple[str, ...],
    output: str,
    fail_on_pending: bool,
) -> None:
    """Schedule manifests of nodes and pods in memory, and show where each pod goes and why.

    Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs are expanded to the pods that their
    controllers would create, and ResourceClaimTemplates to claims. No cluster is read or changed. Extenders
    of the configuration are called, except to bind.

    Groups of pods are listed after the pods: scheduled or pending, and which pods would be evicted for them.
    PodGroups turn on the feature gates that they need, unless --config sets one of these.

    \b
    Exit codes:
      0  all objects were valid
      1  some objects were skipped because they are invalid, or --explain names no pod
      2  invalid usage, configuration, plugin or file
      3  some pods are pending, with --fail-on-pending
    """
    maker = SchedulerMaker(config_file, plugins, seed=seed, record=True)
    objects, problems = read_manifests(files, maker.kinds())
    objects = without_pods(with_nodes(objects, add_nodes), without)
    cluster = MemoryCluster(maker.make(objects))
    problems += apply_all(cluster, objects)
    for problem in problems:
        echo(problem, err=True)
    for warning in missing_from_dump(objects, [obj for obj in objects if isinstance(obj, Pod)]):
        echo(warning, err=True)
    attempts = Attempts()
    cluster.run(attempts.add)
    attempts.add_evictions(cluster.evictions)
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    untried = {pod.key: _untried(cluster, pod) for pod in pods}
    outcomes = attempts.outcomes(pods, cluster.pods, untried)
    groups = attempts.groups(cluster.scheduler)
    unknown = [name for name in explain if not any(name in (pod.key, pod.name) for pod in pods)]
    if output == "table":
        running = sum(bool(pod.spec.node_name) and pod.active and pod.uid in cluster.pods for pod in pods)
        _print_table(outcomes, sum(isinstance(obj, Node) for obj in objects), running)
        _print_groups(groups)
        _print_stories(cluster.scheduler, attempts, [name for name in explain if name not in unknown])
    else:
        record = {"outcomes": outcomes, "decisions": attempts.all()}
        write_data(record | {"groups": groups} if groups else record, output)
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
    rows = [(o.pod, o.node or f"<{o.state}>", o.why) for o in outcomes]
    _print_rows(("POD", "NODE", "WHY"), rows, [outcome.state for outcome in outcomes])
    counts = Counter(outcome.state for outcome in outcomes)
    tried = counts[SCHEDULED] + counts[PENDING]
    evicted = f", {counts[EVICTED]} evicted" if counts[EVICTED] else ""
    already = f", {running} already had a node" if running else ""
    total = f"{words.count(tried, 'pod')} scheduled on {words.count(nodes, 'node')}"
    echo(f"\n{counts[SCHEDULED]} of {total}{evicted}{already}")


def _print_groups(groups: list[GroupOutcome]) -> None:
    if not groups:
        return
    echo("")
    rows = []
    for group in groups:
        evicted = words.listed(group.evicted[:3], len(group.evicted))
        rows.append(
            (group.group, group.state, f"{group.why}; would evict {evicted}" if evicted else group.why)
        )
    _print_rows(("GROUP", "STATE", "WHY"), rows, [group.state for group in groups])


def _print_rows(heads: Row, rows: Sequence[Row], states: Sequence[str]) -> None:
    """Print a table of three columns; the second has a color on a terminal, by the state of the row."""
    rows = [(printable(a), b, printable(c)) for a, b, c in rows]
    console = Console()
    if console.is_terminal:
        table = Table(*heads, box=None, header_style="bold", pad_edge=False)
        styles = {SCHEDULED: "green", PENDING: "yellow", EVICTED: "red"}
        for state, (first, second, why) in zip(states, rows, strict=True):
            table.add_row(escape(first), f"[{styles[state]}]{escape(second)}[/]", escape(why))
        console.print(table)
        return
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in (0, 1)]
    for first, second, why in (heads, *rows):
        echo(f"{first:<{widths[0]}}  {second:<{widths[1]}}  {why}")


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
