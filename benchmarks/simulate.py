"""python -m benchmarks.simulate: how fast are simulations, and do they agree with queueing theory?

Pods of 151 sizes arrive at a cluster of 1,213 nodes, by a Poisson process, and run for ten minutes on
average; at mild load nearly all fit at once, on nodes of a quarter of the size most attempts fail. Gangs of
up to 16 whole nodes arrive at 500 nodes. Times are
the process' own CPU time, on one core. `--large` adds a million pods, `--days N` so many days of about a
thousand CronJob pods each at depths `core` and `cluster`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mooring.api.meta import Tree
from mooring.cli.process import relax_collector
from mooring.config import from_object
from mooring.core.scheduler import Scheduler
from mooring.sandbox.kubelet.scripts import RUN_TIME
from mooring.simulate.arrivals import Arrivals, Numbered, Template
from mooring.simulate.cluster_depth import ClusterRun
from mooring.simulate.engine import Clock, CoreRun
from mooring.simulate.gangs import Gangs
from mooring.simulate.invariants import check_run
from mooring.simulate.manifests import contents_of
from mooring.simulate.policies import Policy
from mooring.simulate.queueing import simulate_mmk
from mooring.simulate.random_streams import stream
from mooring.simulate.scenario import GangSpec
from mooring.simulate.traces.pods import make_node, make_pod

NODES = 1213
LIFE = 600.0  # seconds
SHAPES = 151
NO_ARRIVALS = Arrivals([], np.zeros(0), np.zeros(0, np.int32), np.zeros(0), [])


def arrivals(count: int, running: float) -> Arrivals:
    """As many pods, of which about `running` run at a time if all of them fit."""
    draw = stream(0, "benchmark")
    cpu = draw.choice([1, 2, 4, 6, 8, 12, 16], SHAPES, p=[0.1, 0.1, 0.2, 0.2, 0.15, 0.2, 0.05])
    memory = draw.integers(2, 64, SHAPES)
    pods = [make_pod({"cpu": str(c), "memory": f"{m}Gi"}) for c, m in zip(cpu, memory, strict=True)]
    times = np.cumsum(draw.exponential(LIFE / running, count))
    shapes = draw.integers(0, SHAPES, count).astype(np.int32)
    names = Numbered("pod", range(count))
    return Arrivals([Template(pod) for pod in pods], times, shapes, draw.exponential(LIFE, count), names)


def measure(name: str, count: int, running: float, sizes: Sequence[int] = (32, 64, 96, 128)) -> None:
    clock = Clock()
    scheduler = Scheduler(clock=clock, pick=random.Random(0).randrange)
    draw = stream(0, "nodes")
    cpus = draw.choice(sizes, NODES)
    nodes = [make_node(f"node-{i}", {"cpu": str(c), "memory": f"{4 * c}Gi"}) for i, c in enumerate(cpus)]
    run = CoreRun(scheduler, clock, nodes, arrivals(count, running))
    began = time.process_time()
    run.run()
    seconds = time.process_time() - began
    check_run(run)
    print(
        json.dumps(
            {
                "name": name,
                "pods": count,
                "attempts": run.attempts,
                "seconds": round(seconds, 1),
                "pods_per_s": round(count / seconds),
                "attempts_per_s": round(run.attempts / seconds),
                "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        ),
        flush=True,
    )


def measure_gangs(count: int, load: float) -> None:
    """As many pods in gangs of 1 to 16 whole nodes, on 500 nodes of which a share is in use."""
    nodes, draw = 500, stream(0, "gangs")
    gangs = round(count / 8.5)
    times = np.cumsum(draw.exponential(LIFE * 8.5 / (nodes * load), gangs))
    template = Template(make_pod({"nvidia.com/gpu": 8}))
    source = Gangs("train", GangSpec(size={"uniform": [1, 16]}), Path())
    pods, groups = source.make(template, times, draw.exponential(LIFE, gangs), 0)
    clock = Clock()
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": {"GenericWorkload": True, "GangScheduling": True},
    }
    scheduler = Scheduler(from_object(config), clock=clock, pick=random.Random(0).randrange)
    machines = [make_node(f"node-{i}", {"cpu": "64", "nvidia.com/gpu": 8}) for i in range(nodes)]
    run = CoreRun(scheduler, clock, [*machines, *groups], pods)
    began = time.process_time()
    run.run()
    seconds = time.process_time() - began
    check_run(run)
    row = {"name": f"gangs at {load:.0%} load", "pods": len(pods), "gangs": gangs, "attempts": run.attempts}
    print(json.dumps({**row, "seconds": round(seconds, 1)}), flush=True)


def measure_cron_jobs(days: float, depth: str) -> None:
    """42 CronJobs, one pod an hour each, on ten nodes."""
    nodes = [make_node(f"node-{i}", {"cpu": "16", "memory": "64Gi", "pods": "110"}) for i in range(10)]
    manifests, until = [_cron_job(i) for i in range(42)], 86400 * days
    policy = Policy("default")
    run: ClusterRun | CoreRun
    if depth == "core":
        clock = Clock()
        jobs = contents_of([(tree, "benchmark") for tree in manifests]).objects
        run = CoreRun(policy.scheduler(clock, 0), clock, [*nodes, *jobs], NO_ARRIVALS, until=until)
    else:
        run = ClusterRun(policy, 0, nodes, NO_ARRIVALS, manifests=manifests, until=until)
    began = time.process_time()
    run.run()
    seconds = time.process_time() - began
    check_run(run)
    pods = len(run.log)
    print(
        json.dumps(
            {
                "name": f"{days:g} days of CronJobs at depth {depth}",
                "pods": pods,
                "seconds": round(seconds, 1),
                "ms_per_pod": round(1000 * seconds / pods, 2),
                "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        ),
        flush=True,
    )


def _cron_job(number: int) -> Tree:
    container = {"name": "report", "image": "report", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {RUN_TIME: "5m"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": f"report-{number}", "namespace": "default"},
        "spec": {"schedule": f"{number} * * * *", "jobTemplate": {"spec": {"template": template}}},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also simulate a million pods")
    parser.add_argument("--days", type=float, help="simulate so many days of CronJobs instead")
    parser.add_argument("--depth", choices=("core", "cluster"), help="with --days: only this depth")
    options = parser.parse_args()
    relax_collector()
    if options.days:
        for depth in ("core", "cluster") if options.depth is None else (options.depth,):
            measure_cron_jobs(options.days, depth)
        return
    measure("overloaded", 6_000, 5_000, sizes=(8, 16, 24, 32))
    measure("mild load", 100_000, 3_000)
    measure_gangs(100_000, 0.7)
    waited, expected = simulate_mmk(servers=4, load=0.7, arrivals=100_000, seed=0)
    error = 100 * (waited / expected - 1)
    row = {"name": "M/M/4 at 70 %", "wait": waited, "theory": expected, "error_percent": round(error, 2)}
    print(json.dumps(row), flush=True)
    if options.large:
        measure("a million pods", 1_000_000, 3_000)


if __name__ == "__main__":
    main()
