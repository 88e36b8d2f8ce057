"""python -m benchmarks.local: how fast does a whole cluster in one process come up, and run a large workload?

Each row runs in a process of its own. Beside the time by the clock stands the CPU time of the process: on a
busy machine only that says something. Ratios to goals are of CPU time; more than 1 is better than the goal.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import time
from multiprocessing.connection import Connection
from typing import Any

from mooring.cli.event_loop import fastest_loop
from mooring.cli.process import relax_collector
from mooring.config import LoadedConfig, default_config
from mooring.controllers.kinds import NODES, PODS
from mooring.core.build import registry_with
from mooring.local.local_cluster import LocalCluster
from mooring.nodes import make_nodes

SCALED_ON = 1000  # nodes


class Watch:
    """Seconds since it was made, by the clock and of CPU."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        clock, cpu = self._began
        return time.perf_counter() - clock, time.process_time() - cpu


async def come_up(nodes: int) -> LocalCluster:
    """A cluster whose nodes are all ready, with a scheduler."""
    cluster = LocalCluster()
    await cluster.start()
    await cluster.nodes.register(make_nodes(nodes))
    await cluster.schedule(LoadedConfig(default_config()), registry_with())
    found = cluster.cache.follow(NODES)
    while (
        sum(any(c.type == "Ready" and c.status == "True" for c in n.status.conditions) for n in found) < nodes
    ):
        await asyncio.sleep(0.01)
    return cluster


async def up(nodes: int) -> dict[str, Any]:
    watch = Watch()
    cluster = await come_up(nodes)
    seconds, cpu = watch.read()
    await cluster.stop()
    return {"seconds": seconds, "cpu": cpu, "memory": _memory()}


async def scale(pods: int) -> dict[str, Any]:
    """A Deployment from nothing to so many pods that run."""
    cluster = await come_up(SCALED_ON)
    followed = cluster.cache.follow(PODS)
    running = 0

    def changed(old: Any, new: Any) -> None:
        nonlocal running
        running += (new is not None and new.ready) - (old is not None and old.ready)

    followed.subscribe(changed)
    watch = Watch()
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    await cluster.applier.apply(manifest, "benchmark")
    while running < pods:
        await asyncio.sleep(0.05)
    seconds, cpu = watch.read()
    await cluster.stop()
    return {"seconds": seconds, "cpu": cpu, "memory": _memory()}


def _memory() -> float:
    """The most that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def _child(answer: Connection, name: str, count: int) -> None:
    relax_collector()
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        answer.send(runner.run({"up": up, "scale": scale}[name](count)))


def measured(name: str, count: int) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_child, args=(there, name, count))
    process.start()
    found: dict[str, Any] = here.recv()
    process.join()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--pods", type=int, default=10_000)
    pods = options.parse_args().pods
    print(f"{'':34}{'clock':>10}{'CPU':>10}{'memory':>10}{'goal':>12}{'ratio':>7}")
    for nodes, goal in ((100, 1.5), (5000, 10.0)):
        found = measured("up", nodes)
        row(f"{nodes} nodes ready", found, f"{goal:g} s", goal / found["cpu"])
    found = measured("scale", pods)
    row(f"a Deployment of {pods} pods, running", found, "1000 pods/s", pods / found["cpu"] / 1000)
    print(f"{pods / found['seconds']:.0f} pods/s by the clock, {pods / found['cpu']:.0f} by CPU time")


def row(name: str, found: dict[str, Any], goal: str, ratio: float) -> None:
    times = f"{found['seconds']:>8.2f} s{found['cpu']:>8.2f} s"
    print(f"{name:34}{times}{found['memory']:>7.0f} MB{goal:>12}{ratio:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
