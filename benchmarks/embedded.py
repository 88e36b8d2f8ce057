"""python -m benchmarks.embedded: how fast is the embedded API server, and how much memory does it take?

The server runs in a process of its own and the client in this one, over TLS on loopback. Beside the rate by
the clock stands the rate that the server's own CPU time would allow: on a busy machine only that says
something. Ratios to the goals are of CPU time; more than 1 is better than the goal.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import time
from collections.abc import Awaitable, Callable
from math import inf
from multiprocessing.connection import Connection
from typing import Any

from mooring.api.kinds import LEASES, NODES, PODS
from mooring.cli.process import relax_collector
from mooring.client.api_server import ApiServer
from mooring.client.credentials import load_credentials
from mooring.sandbox.apiserver import EmbeddedServer
from mooring.sandbox.apiserver.port import EmbeddedCluster

AT_ONCE = 32
Create = Callable[[int], Awaitable[object]]


def node(number: int) -> dict[str, Any]:
    size = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    labels = {"topology.kubernetes.io/zone": f"zone-{number % 3}", "kubernetes.io/hostname": f"node-{number}"}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"capacity": size, "allocatable": size, "conditions": conditions}
    return {"metadata": {"name": f"node-{number}", "labels": labels}, "status": status}


def pod(number: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "200Mi"}}
    spec = {"containers": [{"name": "c", "image": "pause:3.10", "resources": resources}]}
    return {"metadata": {"name": f"pod-{number}", "labels": {"app": "web"}}, "spec": spec}


def running(number: int) -> dict[str, Any]:
    """What a kubelet says of a pod that runs."""
    when, address = "2026-01-01T00:00:00Z", f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    container = {"name": "c", "image": "pause:3.10", "imageID": "", "restartCount": 0}
    status = {
        "phase": "Running",
        "conditions": [{"type": type, "status": "True", "lastTransitionTime": when} for type in types],
        "hostIP": "192.168.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": when,
        "containerStatuses": [{**container, "ready": True, "state": {"running": {"startedAt": when}}}],
    }
    return {"status": status}


def lease(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"node-{number}"}, "spec": {"holderIdentity": f"node-{number}"}}


def simple(number: int) -> dict[str, Any]:
    """A node that is nothing but its name: next to nothing but the way of every write."""
    return {"metadata": {"name": f"simple-{number}"}}


async def in_turns(create: Create, count: int, at_once: int = AT_ONCE) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await create(number)

    await asyncio.gather(*(work() for _ in range(at_once)))


def show(what: str, count: int, wall: float, cpu: float, goal: float) -> None:
    print(
        f"{what:34} {count / wall:8,.0f}/s by the clock, {count / cpu:8,.0f}/s by CPU time "
        f"({count / cpu / goal:.2f} of the goal)"
    )


# ---- over HTTP ------------------------------------------------------------------------------------


def serve(pipe: Connection) -> None:
    """A server that reports its CPU time on request and ends when the pipe closes."""
    relax_collector()  # as the command does

    async def run() -> None:
        async with EmbeddedServer() as server:
            loop, ended = asyncio.get_running_loop(), asyncio.Event()

            def answer() -> None:
                try:
                    pipe.recv()
                    pipe.send(time.process_time())
                except EOFError:
                    loop.remove_reader(pipe.fileno())
                    ended.set()

            loop.add_reader(pipe.fileno(), answer)
            pipe.send(str(server.kubeconfig))
            await ended.wait()

    asyncio.run(run())


class Meter:
    """The clock and the CPU time of the server since it was made."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._cpu, self._wall = self._server_cpu(), time.perf_counter()

    def _server_cpu(self) -> float:
        self._pipe.send(None)
        seconds: float = self._pipe.recv()
        return seconds

    def read(self) -> tuple[float, float]:
        wall = time.perf_counter() - self._wall
        return wall, self._server_cpu() - self._cpu


async def over_http(pipe: Connection, writes: int, nodes: int) -> None:
    api = ApiServer(load_credentials(pipe.recv()), qps=-1)
    try:
        await in_turns(lambda number: api.create(NODES, node(number)), nodes)
        await measure_list(api, pipe, nodes)
        meter = Meter(pipe)
        await in_turns(lambda number: api.create(NODES, simple(number)), writes)
        show("simple writes over HTTP", writes, *meter.read(), 2000)
        await in_turns(lambda number: api.create(PODS, pod(number), "default"), writes)
        meter = Meter(pipe)
        seen = 0
        async for _ in api.watch(PODS, "1"):
            seen += 1
            if seen == writes:
                break
        show("watch events to one client", seen, *meter.read(), 20_000)
    finally:
        await api.close()


async def measure_list(api: ApiServer, pipe: Connection, nodes: int) -> None:
    await api.list(NODES, limit=1)
    meter = Meter(pipe)
    page = await api.list(NODES)
    wall, cpu = meter.read()
    assert len(page.items) == nodes
    print(
        f"{f'list of {nodes:,} nodes':34} {wall * 1000:8,.0f} ms until the client has decoded it, "
        f"{cpu * 1000:,.0f} ms of CPU time ({150 / 1000 / cpu:.2f} of the goal)"
    )


# ---- in one process -------------------------------------------------------------------------------


async def one_by_one(what: str, write: Create, writes: int, goal: float) -> None:
    """The best fifth: this measures the program, not what else the machine is doing."""
    part, best = writes // 5, (inf, inf)
    for start in range(0, part * 5, part):
        cpu, wall = time.process_time(), time.perf_counter()
        for number in range(start, start + part):
            await write(number)
        best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
    show(what, part, best[1], best[0], goal)


async def in_process(writes: int) -> None:
    async with EmbeddedServer() as server:
        tracked, kept = server.cluster, EmbeddedCluster(server.api, tracked=False)
        what = "simple writes in process"
        await one_by_one(what, lambda number: tracked.create(NODES, simple(number)), writes, 20_000)
        await one_by_one(
            f"{what}, untracked", lambda number: kept.create(NODES, simple(writes + number)), writes, 20_000
        )
        await in_turns(lambda number: kept.create(LEASES, lease(number), "default"), writes, 1)
        await one_by_one("leases renewed, untracked", renewal(kept), writes, 20_000)
        await pods_in_process(kept, writes)


def renewal(cluster: EmbeddedCluster) -> Create:
    patch = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
    return lambda number: cluster.patch(LEASES, f"node-{number}", patch, "default")


async def pods_in_process(cluster: EmbeddedCluster, pods: int) -> None:
    """What fake nodes, controllers and the scheduler do by the ten thousand: together 0.4 ms at most."""

    running_pods, more = 0, asyncio.Event()

    async def follow() -> None:
        nonlocal running_pods
        async for change in cluster.watch(PODS, "1", namespace="default"):
            running_pods += change.object is not None and change.object.status.phase == "Running"
            more.set()

    async def seen(count: int) -> None:
        while running_pods < count:
            more.clear()
            await more.wait()

    async def live(number: int) -> None:
        name = f"pod-{number}"
        await cluster.create(PODS, pod(number), "default")
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": f"simple-{number}"}}
        await cluster.post(PODS, name, "binding", binding, "default")
        await cluster.patch(PODS, name, running(number), "default", subresource="status")
        await asyncio.sleep(0)
        if number % (pods // 5) == pods // 5 - 1:
            await seen(number + 1)

    following = asyncio.create_task(follow())
    await one_by_one("pods created, bound, running, seen", live, pods, 2500)
    following.cancel()


def measure_memory(nodes: int, pods: int) -> None:
    relax_collector()

    async def run() -> None:
        async with EmbeddedServer() as server:
            await in_turns(lambda number: server.cluster.create(NODES, node(number)), nodes, 1)
            await in_turns(lambda number: server.cluster.create(PODS, pod(number), "default"), pods, 1)
            mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            what = f"{nodes:,} nodes and {pods:,} pods"
            print(f"{what:34} {mib:8,.0f} MiB at most ({1024 / mib:.2f} of the goal)")

    asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--writes", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")  # a fork would inherit this process's memory
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    theirs.close()
    asyncio.run(over_http(ours, options.writes, options.nodes))
    ours.close()
    server.join()
    relax_collector()
    asyncio.run(in_process(options.writes))
    memory = context.Process(target=measure_memory, args=(options.nodes, options.pods))
    memory.start()
    memory.join()


if __name__ == "__main__":
    main()
