"""How long does a single pod take into an idle cluster, from its creation to its binding?

The clock starts when the request that creates the pod is sent, and stops when a watch shows the pod bound.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing
from pathlib import Path

import msgspec

from benchmarks.api_server import NODES, PODS, Api, connect
from benchmarks.backlog import node, pod
from benchmarks.scheduler_process import SchedulerProcess, running

PAUSE = 0.05  # after each pod, so that the cluster is idle again
PATIENCE = 60
WARM_UP = 20  # pods of each scheduler that are not counted: connections open, caches fill


class Latency(msgspec.Struct):
    scheduler: str
    nodes: int
    pods: int
    p50_ms: float
    p99_ms: float
    max_ms: float


async def measure(
    kubeconfig: Path, folder: Path, schedulers: list[str], nodes: int, pods: int
) -> list[Latency]:
    """All schedulers run at once and get pods in turn: what disturbs one disturbs the other."""
    times: dict[str, list[float]] = {scheduler: [] for scheduler in schedulers}
    async with connect(kubeconfig) as api:
        await api.prepare()
        await api.create_all(NODES, (node(i) for i in range(nodes)))
        with ExitStack() as stack:
            processes = [stack.enter_context(running(name, kubeconfig, folder)) for name in schedulers]
            async with aclosing(api.bindings()) as bindings:
                for i in range(WARM_UP + pods):
                    for scheduler in schedulers:
                        seconds = await _one(api, bindings, processes, scheduler, i)
                        times[scheduler].append(seconds)
    return [_summary(scheduler, nodes, latencies[WARM_UP:]) for scheduler, latencies in times.items()]


async def _one(
    api: Api,
    bindings: AsyncIterator[list[str]],
    processes: list[SchedulerProcess],
    scheduler: str,
    i: int,
) -> float:
    obj = pod("plain", scheduler, i)
    began = time.monotonic()
    creation = asyncio.create_task(api.create(PODS, obj))
    bound: list[str] = []
    while obj["metadata"]["name"] not in bound:
        try:
            bound = await asyncio.wait_for(anext(bindings), PATIENCE)
        except TimeoutError:
            for process in processes:
                process.check()
            raise SystemExit(f"{scheduler} did not bind a pod within {PATIENCE} s") from None
    seconds = time.monotonic() - began
    await creation
    await asyncio.sleep(PAUSE)
    return seconds


def _summary(scheduler: str, nodes: int, seconds: list[float]) -> Latency:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    p50, p99, worst = (round(1000 * value, 1) for value in (cuts[49], cuts[98], max(seconds)))
    return Latency(scheduler, nodes, len(seconds), p50, p99, worst)
