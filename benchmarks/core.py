"""python -m benchmarks.core: how fast does the core schedule, without any I/O?

Each pod goes the whole way: into the queue, through the cycle, bound through the in-memory cluster,
confirmed and counted. Prints one JSON line per workload and a table. Times are the process' own CPU time:
the core is one thread that never waits, so on an idle machine that is the time it takes, and on a busy one
it still says something. Each run has a process of its own: one that another workload has filled with objects
finds its own less quickly. All workloads are run in turn, some times over, and the best run of each counts:
this is to measure the program, and what else a machine is doing changes from minute to minute. How much the
runs differ is printed beside it.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from benchmarks import workloads
from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.cli.process import relax_collector
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler


class Workload(NamedTuple):
    name: str
    pods: int
    make: Callable[[int], dict[str, Any]]
    goal: int | None = None
    nodes: int = 5000
    before: Callable[[int], Iterable[KubeObject]] = lambda nodes: ()
    cpu: str = "32"


def full(nodes: int) -> Iterable[KubeObject]:
    return workloads.filler(nodes, 8, "4")


WORKLOADS = (
    Workload("one shape", 10_000, workloads.one_shape, 10_000),
    Workload(
        "one shape, of a ReplicaSet",
        10_000,
        workloads.owned,
        10_000,
        before=lambda nodes: [from_dict(workloads.REPLICA_SET)],
    ),
    Workload("100 shapes", 10_000, workloads.hundred_shapes, 5000),
    Workload("every pod its own shape", 2000, workloads.own_shape, 800),
    Workload("zone spread, DoNotSchedule", 5000, workloads.spread("DoNotSchedule"), 4000),
    Workload("zone spread, ScheduleAnyway", 5000, workloads.spread("ScheduleAnyway"), 4000),
    Workload(
        "required affinity, region",
        5000,
        workloads.affinity("podAffinity", "topology.kubernetes.io/region"),
        3000,
    ),
    Workload(
        "required anti-affinity, hostname",
        4000,
        workloads.affinity("podAntiAffinity", "kubernetes.io/hostname"),
        3000,
    ),
    Workload(
        "preferred affinity, hostname",
        5000,
        workloads.affinity("podAffinity", "kubernetes.io/hostname", preferred=True),
        2000,
    ),
    Workload("preemption", 2000, workloads.important, 300, before=full),
    Workload(
        "claims of one template",
        5000,
        workloads.claiming,
        1500,
        before=workloads.devices(5000, 1),
    ),
    Workload(
        "claims with 100 selectors",
        5000,
        workloads.claiming,
        500,
        before=workloads.devices(5000, 100),
    ),
)
SCALES = tuple(Workload("one shape", 10_000, workloads.one_shape, nodes=n) for n in (500, 5000, 15_000))
ALL = (*WORKLOADS, *SCALES)


def run(index: int) -> dict[str, Any]:
    workload = ALL[index]
    return row(workload.name, workload.nodes, workload.pods, once(workload), workload.goal)


def row(name: str, nodes: int, pods: int, seconds: float, goal: int | None) -> dict[str, Any]:
    return {
        "name": name,
        "nodes": nodes,
        "pods": pods,
        "pods_per_s": round(pods / seconds),
        "us_per_pod": round(1e6 * seconds / pods, 1),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "goal": goal,
    }


def once(workload: Workload) -> float:
    start = time.time()
    scheduler = Scheduler(clock=lambda: start, pick=random.Random(0).randrange)
    cluster = MemoryCluster(scheduler)
    for i in range(workload.nodes):
        cluster.apply(workloads.node(i, workload.cpu))
    for obj in workload.before(workload.nodes):
        cluster.apply(obj)
    pods = [from_dict(workload.make(i)) for i in range(workload.pods)]
    gc.collect()
    began = time.process_time()
    for obj in pods:
        cluster.apply(obj)
    cluster.run()
    seconds = time.process_time() - began
    bound = sum(bool(cluster.pods[obj.uid].spec.node_name) for obj in pods)
    if bound != len(pods):
        raise SystemExit(f"{workload.name}: only {bound} of {len(pods)} pods were bound")
    return seconds


def load(nodes: int = 5000, pods: int = 150_000) -> dict[str, Any]:
    """A cluster at Kubernetes' own limit: read every pod from JSON and count it on its node."""
    texts = [json.dumps(workloads.bound(i, nodes, 500)) for i in range(pods)]
    scheduler = Scheduler(clock=time.time, pick=random.Random(0).randrange)
    for i in range(nodes):
        scheduler.apply(workloads.node(i))
    began = time.process_time()
    for text in texts:
        scheduler.apply(from_dict(json.loads(text)))
    seconds = time.process_time() - began
    size = sum(map(len, texts)) >> 20
    return row(f"load {pods} bound pods, {size} MB of JSON", nodes, pods, seconds, pods // 30)


def best_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rates = [run["pods_per_s"] for run in runs]
    return {**runs[rates.index(max(rates))], "lowest_pods_per_s": min(rates)}


def table(rows: Iterable[dict[str, Any]]) -> None:
    print(
        f"\n{'workload':<40}{'nodes':>6}{'pods':>7}{'pods/s':>8}{'lowest':>8}{'µs/pod':>8}{'goal':>7}{'ratio':>6}"
    )
    for each in rows:
        goal = each["goal"]
        met = f"{goal:>7}{each['pods_per_s'] / goal:>6.1f}" if goal else ""
        print(
            f"{each['name']:<40}{each['nodes']:>6}{each['pods']:>7}{each['pods_per_s']:>8}"
            f"{each['lowest_pods_per_s']:>8}{each['us_per_pod']:>8}{met}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.core", description=__doc__)
    parser.add_argument("names", nargs="*", help="only workloads whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    names = options.names
    tasks: list[Callable[[], dict[str, Any]]] = [] if names and "load" not in names else [load]
    tasks += [
        partial(run, index)
        for index, workload in enumerate(ALL)
        if not names or any(name in workload.name for name in names)
    ]
    runs: list[list[dict[str, Any]]] = [[] for _ in tasks]
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), relax_collector, max_tasks_per_child=1
    ) as processes:  # with the collector as the command sets it
        for number in range(1, options.rounds + 1):
            for task, results in zip(tasks, runs, strict=True):
                results.append(processes.submit(task).result())
                line = f"{results[-1]['name']}: {results[-1]['pods_per_s']} pods/s"
                print(f"round {number} of {options.rounds}: {line}", file=sys.stderr, flush=True)
    rows = [best_of(results) for results in runs]
    for each in rows:
        print(json.dumps(each))
    table(rows)


if __name__ == "__main__":
    main()
