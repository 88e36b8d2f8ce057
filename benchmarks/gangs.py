"""python -m benchmarks.gangs: how long does the core take to plan a group of pods, without any I/O?

Each row is one turn of the scheduling loop, from popping the group to the effects of its plan. Prints one
JSON line per row and a table. Times are the process' own CPU time, and the best run of each row counts, as
in benchmarks.core.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from benchmarks import workloads
from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.cli.process import relax_collector
from mooring.config import from_object
from mooring.core.effects import Evict
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler

GATES = ("GenericWorkload", "GangScheduling")
TOPOLOGY = "TopologyAwareWorkloadScheduling"
PREEMPTION = "WorkloadAwarePreemption"
RACK = "example.com/rack"
MOST_OF_A_NODE = {"cpu": "20", "memory": "1Gi"}


class Row(NamedTuple):
    name: str
    members: int
    goal: int  # milliseconds
    make: Callable[[int], dict[str, Any]] = workloads.one_shape
    nodes: int = 5000
    before: Callable[[int], Iterable[KubeObject]] = lambda nodes: ()
    gates: tuple[str, ...] = ()
    group: dict[str, Any] = {}
    starts: bool = True
    evicted: int = 0


def whole_node(i: int) -> dict[str, Any]:
    return workloads.pod(i, requests=MOST_OF_A_NODE)


def important(i: int) -> dict[str, Any]:
    return workloads.pod(i, requests=MOST_OF_A_NODE, priority=100, labels={"app": "important"})


def room_for_999(nodes: int) -> Iterable[KubeObject]:
    return workloads.filler(nodes - 999, 1, "20")


def four_to_a_node(nodes: int) -> Iterable[KubeObject]:
    return workloads.filler(nodes, 4, "8")


ONE_RACK = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
APART = workloads.affinity("podAntiAffinity", "kubernetes.io/hostname")

ROWS = (
    Row("one shape", 1000, 100),
    Row("every member its own shape", 1000, 2000, workloads.own_shape),
    Row("anti-affinity, hostname", 1000, 500, APART),
    Row("zone spread, DoNotSchedule", 1000, 500, workloads.spread("DoNotSchedule")),
    Row("one shape, room for 999", 1000, 50, whole_node, before=room_for_999, starts=False),
    Row("one of 250 racks", 16, 50, whole_node, gates=(TOPOLOGY,), group=ONE_RACK),
    Row(
        "preemption among 20,000 pods",
        1000,
        1000,
        important,
        before=four_to_a_node,
        gates=(PREEMPTION,),
        group={"priority": 100},
        evicted=3000,
    ),
)


def node(i: int) -> KubeObject:
    obj = workloads.node(i)
    obj.metadata.labels[RACK] = f"rack-{i // 20:03d}"
    return obj


def pod_group(name: str, minimum: int, **spec: Any) -> KubeObject:
    return from_dict(
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": f"group-{name}"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec},
        }
    )


def cluster_with(gates: Iterable[str], nodes: int) -> MemoryCluster:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(gates, True),
    }
    start = time.time()
    scheduler = Scheduler(from_object(config), clock=lambda: start, pick=random.Random(0).randrange)
    cluster = MemoryCluster(scheduler)
    for i in range(nodes):
        cluster.apply(node(i))
    return cluster


def member(row: Row, i: int) -> KubeObject:
    obj = row.make(i)
    obj["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    return from_dict(obj)


def prepared(row: Row) -> MemoryCluster:
    """The cluster of a row, in the moment before the group is tried."""
    cluster = cluster_with((*GATES, *row.gates), row.nodes)
    for obj in row.before(row.nodes):
        cluster.apply(obj)
    cluster.apply(pod_group("train", row.members, **row.group))
    for i in range(row.members):
        cluster.apply(member(row, i))
    gc.collect()
    return cluster


def run(index: int) -> dict[str, Any]:
    row = ROWS[index]
    cluster = prepared(row)
    began = time.process_time()
    cluster.scheduler.schedule_one()
    seconds = time.process_time() - began
    evicted = sum(isinstance(effect, Evict) for effect in cluster.scheduler.effects)
    cluster.run()
    members = [pod for pod in cluster.pods.values() if pod.spec.scheduling_group]
    bound = sum(bool(pod.spec.node_name) for pod in members)
    if bound != (row.members if row.starts else 0):
        raise SystemExit(f"{row.name}: {bound} of {row.members} members were bound")
    if evicted != row.evicted:
        raise SystemExit(f"{row.name}: {evicted} pods were evicted, expected {row.evicted}")
    return {
        "name": row.name,
        "nodes": row.nodes,
        "members": row.members,
        "ms": 1000 * seconds,
        "goal": row.goal,
    }


def best_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    times = [round(each["ms"], 1) for each in runs]
    return {**runs[0], "ms": min(times), "highest_ms": max(times)}


def table(rows: Iterable[dict[str, Any]]) -> None:
    print(f"\n{'group':<40}{'nodes':>6}{'members':>8}{'ms':>8}{'highest':>8}{'goal':>6}")
    for row in rows:
        print(
            f"{row['name']:<40}{row['nodes']:>6}{row['members']:>8}{row['ms']:>8}{row['highest_ms']:>8}{row['goal']:>6}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gangs", description=__doc__)
    parser.add_argument("names", nargs="*", help="only rows whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    chosen = [i for i, row in enumerate(ROWS) if any(n in row.name for n in options.names or [""])]
    runs: list[list[dict[str, Any]]] = [[] for _ in chosen]
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), relax_collector, max_tasks_per_child=1
    ) as processes:
        for number in range(1, options.rounds + 1):
            for index, results in zip(chosen, runs, strict=True):
                results.append(processes.submit(run, index).result())
                line = f"{results[-1]['name']}: {results[-1]['ms']:.1f} ms"
                print(f"round {number} of {options.rounds}: {line}", file=sys.stderr, flush=True)
    rows = [best_of(results) for results in runs]
    for each in rows:
        print(json.dumps(each))
    table(rows)


if __name__ == "__main__":
    main()
