"""python -m benchmarks.local: how fast does a whole cluster in one process come up, and run a large workload?

Each run has a process of its own. Beside the time by the clock stands the CPU time of the process: on a busy
machine only that says something. All are run in turn, some times over: the best of each counts, and the
slowest is printed beside it. Ratios to goals are of CPU time; more than 1 is better than the goal.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import sys
import time
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from mooring.api.kinds import NODES, PODS
from mooring.cli.event_loop import fastest_loop
from mooring.cli.process import relax_collector
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import make_nodes

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
    nodes_cache = cluster.cache.follow(NODES)
    while (
        sum(any(c.type == "Ready" and c.status == "True" for c in n.status.conditions) for n in nodes_cache)
        < nodes
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
        running += _runs(new) - _runs(old)

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


def _runs(pod: Any) -> bool:
    return pod is not None and pod.status.phase == "Running"


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
    result: dict[str, Any] = here.recv()
    process.join()
    return result


class Measure(NamedTuple):
    """Something to be measured, and how long it may take."""

    name: str
    work: str
    size: int
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    pods = options.pods
    measures = (
        Measure("100 nodes ready", "up", 100, 1.5),
        Measure("5000 nodes ready", "up", 5000, 10.0),
        Measure(f"a Deployment of {pods} pods, running", "scale", pods, pods / 1000),
    )
    runs: list[list[dict[str, Any]]] = [[] for _ in measures]
    for number in range(1, options.rounds + 1):
        for measure, results in zip(measures, runs, strict=True):
            results.append(measured(measure.work, measure.size))
            line = f"{measure.name}: {results[-1]['cpu']:.2f} s"
            print(f"round {number} of {options.rounds}: {line}", file=sys.stderr, flush=True)
    print(f"{'':36}{'clock':>9}{'CPU':>9}{'slowest':>9}{'memory':>9}{'goal':>8}{'ratio':>7}")
    for measure, results in zip(measures, runs, strict=True):
        row(measure, min(results, key=_cpu), max(map(_cpu, results)))
    rates = sorted(pods / run["cpu"] for run in runs[-1])
    print(f"{rates[-1]:.0f} pods/s in the best run, {rates[0]:.0f} in the slowest")


def _cpu(run: dict[str, Any]) -> float:
    return float(run["cpu"])


def row(measure: Measure, best: dict[str, Any], slowest: float) -> None:
    times = f"{best['seconds']:>7.2f} s{best['cpu']:>7.2f} s{slowest:>7.2f} s"
    goal = f"{measure.seconds:>6g} s{measure.seconds / best['cpu']:>7.2f}"
    print(f"{measure.name:36}{times}{best['memory']:>6.0f} MB{goal}")


if __name__ == "__main__":
    main()
