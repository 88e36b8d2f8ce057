"""python -m benchmarks.memory: is the memory of a sandbox cluster bounded by what is in it?

A cluster in virtual time. In each round pods with labels of their own are created, run and deleted,
then ten minutes pass. Events live for an hour, so from the seventh round on as many expire as are recorded.
Prints a line per round: resident memory, live Events, and the history that the API server keeps for watches.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource

from mooring.api.kinds import PODS
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import make_nodes
from mooring.serving.memory import release_memory

ROUND_SECONDS = 600.0
BATCH = 100


def manifest(number: int) -> dict[str, object]:
    name = f"pod-{number}"
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"containers": [container]},
    }


async def churn(cluster: LocalCluster, first: int, pods: int) -> None:
    """Create and delete pods, a batch at a time."""
    running = cluster.cache.follow(PODS)
    for start in range(first, first + pods, BATCH):
        numbers = range(start, min(start + BATCH, first + pods))
        for number in numbers:
            await cluster.applier.apply(manifest(number), "churn")
        while sum(pod.status.phase == "Running" for pod in running) < len(numbers):
            await asyncio.sleep(1)
        for number in numbers:
            await cluster.server.cluster.delete(PODS, f"pod-{number}", "default")
        while len(running):
            await asyncio.sleep(1)


def report(cluster: LocalCluster, pods: int) -> str:
    gc.collect()
    release_memory()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    store = cluster.server.api.store
    tables = store.tables()
    history = sum(table.history_bytes for table in tables)
    events = sum(len(table) for table in tables if table.name.startswith("events"))
    return f"{pods:>7,} pods: {resident / 1e6:6.1f} MB, {events:>7,} Events, history {history / 1e6:5.1f} MB"


async def run(rounds: int, pods: int, nodes: int) -> None:
    loop = asyncio.get_running_loop()
    cluster = LocalCluster(serve=False, clock=loop.time, seed=0)
    await cluster.start()
    await cluster.nodes.register(make_nodes(nodes))
    await cluster.schedule(LoadedConfig(default_config()), registry_with())
    print(report(cluster, 0), flush=True)
    for done in range(rounds):
        ends = loop.time() + ROUND_SECONDS
        await churn(cluster, done * pods, pods)
        await asyncio.sleep(max(ends - loop.time(), 0.0))
        print(report(cluster, (done + 1) * pods), flush=True)
    await cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pods", type=int, default=1000, help="pods per round")
    parser.add_argument("--nodes", type=int, default=10)
    options = parser.parse_args()
    loop = VirtualTimeLoop()
    loop.run_until_complete(run(options.rounds, options.pods, options.nodes))
    loop.close()


if __name__ == "__main__":
    main()
