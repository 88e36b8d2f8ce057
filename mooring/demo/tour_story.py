"""The tour: a cluster comes up, a workload is scheduled before your eyes, and two decisions are explained."""

from __future__ import annotations

import asyncio
import time

import click
from rich.console import Console

from mooring.api.kinds import NODES, PODS
from mooring.api.objects import Pod
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.core.decision import Decision
from mooring.demo.examples import EXAMPLES, read
from mooring.demo.pace import pause
from mooring.demo.stage import StoryError
from mooring.explain.explain import decisions
from mooring.explain.report import report
from mooring.sandbox.cluster.applying import read_trees
from mooring.sandbox.cluster.live_view import PERIOD, PlainView, Tally, TerminalView, View
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.cluster.stages import Stage, stage_of
from mooring.sandbox.kubelet import load_nodes

EXAMPLE = "tour"
PATIENCE = 12.0  # seconds until all has happened that will
COMES_AFTER = 1.0  # seconds between two parts of the workload on a terminal, so that a person can follow


def play() -> None:
    asyncio.run(_play())


async def _play() -> None:
    began = time.perf_counter()
    cluster = LocalCluster()
    await cluster.start()
    try:
        await cluster.nodes.register(load_nodes(EXAMPLES / EXAMPLE / "nodes.yaml"))
        click.echo(
            f"Started a cluster of six nodes in {time.perf_counter() - began:.1f} s, as `mooring up` does."
        )
        click.echo("Any Kubernetes client can use its API server. Now create a workload:\n")
        await _watch(cluster)
        await asyncio.to_thread(pause, 2)
        click.echo()
        lines = _explain(cluster, next(pod.key for pod in cluster.cache.follow(PODS) if _is(pod, "web")))
        await asyncio.to_thread(pause, lines)
        click.echo()
        _explain(cluster, "default/db-1")
        click.echo(
            "\nTo compare scheduling policies in virtual time: mooring simulate SCENARIO (docs/simulation.md)"
        )
    finally:
        await cluster.stop()


async def _watch(cluster: LocalCluster) -> None:
    """Bring the workload in, and show what happens until everything has its place, or none."""
    console = Console()

    def look(decision: Decision) -> Stage:
        return stage_of(cluster.scheduler, decision)

    view: View = TerminalView(console, look) if console.is_terminal else PlainView(look)
    try:
        config = LoadedConfig(default_config())
        await cluster.schedule(config, registry_with(), on_decision=view.decided)
        tally = Tally(cluster.cache.follow(PODS), cluster.cache.follow(NODES))
        for tree in read_trees(read(EXAMPLE, "workload.yaml"), "workload.yaml"):
            view.say(await cluster.applier.apply(tree, "workload.yaml"))
            view.refresh(tally.counts())
            await asyncio.sleep(COMES_AFTER if console.is_terminal else 0)
        deadline = time.monotonic() + PATIENCE
        while not _done(cluster):
            if time.monotonic() > deadline:
                raise StoryError(f"not everything ran: {tally.counts()}")
            view.refresh(tally.counts())
            await asyncio.sleep(PERIOD)
        view.refresh(tally.counts())
        await asyncio.sleep(PERIOD)
        view.refresh(tally.counts())
    finally:
        view.close()
    click.echo(tally.counts())


def _done(cluster: LocalCluster) -> bool:
    pods = list(cluster.cache.follow(PODS))
    ready = [pod for pod in pods if pod.ready]
    succeeded = [pod for pod in pods if pod.status.phase == "Succeeded"]
    return len(ready) == 7 and len(succeeded) == 4 and any(pod.name == "db-1" for pod in pods)


def _is(pod: Pod, app: str) -> bool:
    return pod.metadata.labels.get("app") == app


def _explain(cluster: LocalCluster, pod: str) -> int:
    """Print an explanation; return the number of lines."""
    scheduler = cluster.scheduler
    assert scheduler is not None
    click.echo(click.style(f"$ mooring explain {pod.partition('/')[2]}", bold=True))
    decision = decisions(scheduler.core, scheduler.decisions, *pod.split("/"))
    if decision is None:
        raise StoryError(f"no decision recorded for {pod}")
    lines = list(report(decision))
    click.echo("\n".join(lines))
    return len(lines)
