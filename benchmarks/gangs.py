"""python -m benchmarks.gangs: how long does the core take to plan a group of pods, without any I/O?

Most rows are one turn of the scheduling loop, from popping the group to the effects of its plan; others go
from an event to the first binding request, or to the end of what an event causes while gangs wait. Prints one
JSON line per row and a table. Times are the process' own CPU time, and the best run of each row counts, as
in benchmarks.core.
"""

from __future__ import annotations

import argparse
import asyncio
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
from mooring.api.objects import Pod
from mooring.cli.process import relax_collector
from mooring.client.event_recorder import EventRecorder
from mooring.config import from_object
from mooring.core.effects import Evict
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.process.driver import Driver

GATES = ("GenericWorkload", "GangScheduling")
TOPOLOGY = "TopologyAwareWorkloadScheduling"
PREEMPTION = "WorkloadAwarePreemption"
RACK = "example.com/rack"
MOST_OF_A_NODE = {"cpu": "20", "memory": "1Gi"}


WAITING_GANGS = 1000
DELETIONS = 20


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
    sliced: bool = False  # whether the longest turn of the scheduling loop counts
    wake: int | None = None  # pods that leave a node before the one that is measured
    first_bind: str = ""  # the pod whose arrival or end starts the group


def whole_node(i: int) -> dict[str, Any]:
    return workloads.pod(i, requests=MOST_OF_A_NODE)


def important(i: int) -> dict[str, Any]:
    return workloads.pod(i, requests=MOST_OF_A_NODE, priority=100, labels={"app": "important"})


def room_for_999(nodes: int) -> Iterable[KubeObject]:
    return workloads.filler(nodes - 999, 1, "20")


def room_for_7(nodes: int) -> Iterable[KubeObject]:
    return workloads.filler(nodes - 7, 1, "20")


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
    Row(
        "preemption, longest turn",
        1000,
        100,
        important,
        before=four_to_a_node,
        gates=(PREEMPTION,),
        group={"priority": 100},
        evicted=3000,
        sliced=True,
    ),
    Row("last pod arrives, first binding", 1000, 150, first_bind="pod-000999"),
    Row("a pod ends, first binding", 8, 50, whole_node, before=room_for_7, first_bind="pod-1000000"),
    Row("1,000 gangs wait, a pod ends", 8, 5, whole_node, 1000, before=four_to_a_node, wake=0),
    Row("1,000 gangs wait, a node has room", 8, 5, whole_node, 1000, before=four_to_a_node, wake=2),
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


def member(row: Row, i: int, group: str = "train") -> KubeObject:
    obj = row.make(i)
    obj["spec"]["schedulingGroup"] = {"podGroupName": group}
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


def woken(row: Row, leave: int) -> dict[str, Any]:
    """How long the core takes for a pod that ends while many gangs wait for more room than it leaves: with a
    goal of 5 ms, ten of them in a second take less than 5 % of a core."""
    cluster = cluster_with(GATES, row.nodes)
    for obj in row.before(row.nodes):
        cluster.apply(obj)
    for i in range(WAITING_GANGS):
        cluster.apply(pod_group(f"gang-{i}", row.members))
        for j in range(row.members):
            cluster.apply(member(row, i * row.members + j, f"gang-{i}"))
    cluster.run()
    on_node: dict[str, list[Pod]] = {}
    for pod in cluster.pods.values():
        if pod.spec.node_name:
            on_node.setdefault(pod.spec.node_name, []).append(pod)
    gc.collect()
    seconds = 0.0
    for pods in list(on_node.values())[:DELETIONS]:
        for pod in pods[:leave]:
            cluster.delete(pod)
        cluster.run()
        began = time.process_time()
        cluster.delete(pods[leave])
        attempts = cluster.run()
        seconds += time.process_time() - began
        if attempts:
            raise SystemExit(f"{row.name}: {attempts} attempts, expected none")
        for pod in pods[: leave + 1]:
            cluster.apply(pod)
    return figures(row, seconds / DELETIONS)


class FirstBinding:
    """An API server that notes when the first binding is requested, and answers nothing else."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.at = 0.0

    async def post(self, resource: object, name: str, subresource: str, *_: object) -> None:
        if subresource == "binding" and not self.at:
            self.at = time.process_time()
            self.requested.set()

    async def patch(self, *_: object, **__: object) -> None:
        return None


def first_binding(row: Row, name: str) -> dict[str, Any]:
    """How long the driver takes from the event that lets a group start to the first binding request."""
    cluster = cluster_with(GATES, row.nodes)
    pods: dict[str, KubeObject] = {}
    for obj in (*row.before(row.nodes), *(member(row, i) for i in range(row.members))):
        pods[obj.name] = obj
    last = pods[name]
    arrives = isinstance(last, Pod) and not last.spec.node_name
    cluster.apply(pod_group("train", row.members))
    for obj in pods.values():
        if obj is not last or not arrives:
            cluster.apply(obj)
    cluster.run()
    gc.collect()
    return figures(row, asyncio.run(_until_bound(cluster.scheduler, last, arrives)))


async def _until_bound(scheduler: Scheduler, last: KubeObject, arrives: bool) -> float:
    server: Any = FirstBinding()
    driver = Driver(scheduler, server, EventRecorder(server, "default-scheduler", now=time.time_ns))
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(driver.run())
        await asyncio.sleep(0.1)
        began = time.process_time()
        (driver.apply if arrives else driver.delete)(last)
        await server.requested.wait()
        task.cancel()
    seconds: float = server.at - began
    return seconds


def figures(row: Row, seconds: float) -> dict[str, Any]:
    return {
        "name": row.name,
        "nodes": row.nodes,
        "members": row.members,
        "ms": 1000 * seconds,
        "goal": row.goal,
    }


def run(index: int) -> dict[str, Any]:
    row = ROWS[index]
    if row.wake is not None:
        return woken(row, row.wake)
    if row.first_bind:
        return first_binding(row, row.first_bind)
    cluster = prepared(row)
    seconds, is_over = 0.0, False
    while not is_over:
        began = time.process_time()
        schedule = cluster.scheduler.schedule_slice if row.sliced else cluster.scheduler.schedule_one
        is_over = schedule() is not None
        seconds = max(seconds, time.process_time() - began)
    evicted = sum(isinstance(effect, Evict) for effect in cluster.scheduler.effects)
    cluster.run()
    members = [pod for pod in cluster.pods.values() if pod.spec.scheduling_group]
    bound = sum(bool(pod.spec.node_name) for pod in members)
    if bound != (row.members if row.starts else 0):
        raise SystemExit(f"{row.name}: {bound} of {row.members} members were bound")
    if evicted != row.evicted:
        raise SystemExit(f"{row.name}: {evicted} pods were evicted, expected {row.evicted}")
    return figures(row, seconds)


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
