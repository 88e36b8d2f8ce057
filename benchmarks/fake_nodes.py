"""python -m benchmarks.fake_nodes: how fast do fake nodes register, and how fast do pods run on them?

Everything is in this process, on the embedded API server without HTTP. Rates are of CPU time: on a busy
machine only that says something. Ratios to the goals: more than 1 is better than the goal.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from mooring.api.kinds import LEASES, PODS
from mooring.api.objects import Pod
from mooring.cli.process import relax_collector
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.kubelet import FakeNodes, make_nodes

PODS_PER_SECOND, NODES_PER_SECOND = 5000, 1000  # the goals


class Process:
    """Fake nodes with a cache of their own, begun and ended."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cache = Cache(cluster)
        recorder = CountingRecorder(cluster)
        self.nodes = FakeNodes(Context(cluster, self.cache, recorder, time.time))
        self._tasks = [asyncio.create_task(run) for run in (self.cache.run(), recorder.run())]

    def begin(self) -> None:
        self._tasks.append(asyncio.create_task(self.nodes.run()))

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task


def pod(number: int) -> dict[str, Any]:
    """As a Deployment makes them."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
    container = {
        "name": "web",
        "image": "registry.example/web:1",
        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
    }
    labels = {"app": "web", "pod-template-hash": "1"}
    metadata = {"name": f"web-{number}", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"containers": [container]}}


async def timed(what: str, count: int, goal: int, act: Callable[[], Awaitable[None]]) -> None:
    clock, cpu = time.monotonic(), time.process_time()
    await act()
    clock, cpu = time.monotonic() - clock, time.process_time() - cpu
    print(
        f"{what:44} {cpu / count * 1e6:6.0f} µs each, {count / cpu:7,.0f}/s of CPU time, "
        f"{count / clock:7,.0f}/s by the clock ({count / cpu / goal:.2f} of the goal)"
    )


async def measure(nodes: int, pods: int) -> None:
    server = EmbeddedServer()
    server.open()
    cluster = EmbeddedCluster(server.api, tracked=False)
    bodies = make_nodes(nodes)
    first = Process(cluster)
    await first.cache.synced.wait()
    first.begin()

    async def register() -> None:
        await first.nodes.register(bodies)
        while len((await cluster.list(LEASES, namespace="kube-node-lease")).items) < nodes:
            await asyncio.sleep(0.05)

    await timed(f"{nodes:,} nodes: Ready, with leases", nodes, NODES_PER_SECOND, register)
    await first.end()
    for number in range(pods):
        await cluster.create(PODS, pod(number), "default")
        name, node = f"web-{number}", bodies[number % nodes]["metadata"]["name"]
        binding = {"metadata": {"name": name}, "target": {"name": node}}
        await cluster.post(PODS, name, "binding", binding, "default")
    second = Process(cluster)
    known = second.cache.follow(PODS)
    await second.cache.synced.wait()

    waiting = {each.key for each in known}

    def follow(_: Pod | None, each: Pod | None) -> None:
        if each is not None and each.status.phase == "Running":
            waiting.discard(each.key)

    known.subscribe(follow)

    async def run() -> None:
        second.begin()
        while waiting:
            await asyncio.sleep(0.05)

    await timed(f"{pods:,} bound pods: Running", pods, PODS_PER_SECOND, run)
    await second.end()
    await server.stop()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{'memory at its peak':44} {peak:6d} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=10_000)
    arguments = parser.parse_args()
    relax_collector()
    asyncio.run(measure(arguments.nodes, arguments.pods))


if __name__ == "__main__":
    main()
