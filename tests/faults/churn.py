"""Memory over a long churn: pods with labels of their own are created, run and deleted."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
from pathlib import Path
from typing import Any

from mooring.api.kinds import PODS
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import make_nodes

ALIVE = 20  # pods at a time
PER_SECOND = 2.0  # events live for an hour: so many pods' events are alive
GROWTH = 0.1  # allowed between the middle and the end


def main(pods: int) -> int:
    """Create so many pods, a few at a time; return 1 if memory grows after the first half of them."""
    loop = VirtualTimeLoop()
    try:
        samples = loop.run_until_complete(_churn(pods))
    finally:
        loop.close()
    middle, end = max(samples[: len(samples) // 2]), max(samples[len(samples) // 2 :])
    print(f"{pods} pods: {middle / 1e6:.1f} MB in the first half, {end / 1e6:.1f} MB in the second")
    return 1 if end > middle * (1 + GROWTH) else 0


async def _churn(pods: int) -> list[int]:
    cluster = LocalCluster(serve=False, heartbeats=False, clock=asyncio.get_running_loop().time, seed=0)
    await cluster.start()
    await cluster.nodes.register(make_nodes(5))
    await cluster.schedule(LoadedConfig(default_config()), registry_with())
    users = EmbeddedCluster(cluster.server.api, user_agent="users")
    samples = []
    try:
        for number in itertools.count(1):
            await users.create(PODS, _pod(number), "default")
            if number > ALIVE:
                await users.delete(PODS, f"pod-{number - ALIVE}", "default", grace_period_seconds=0)
            await asyncio.sleep(1 / PER_SECOND)
            if number % max(pods // 20, 1) == 0:
                gc.collect()
                samples.append(_resident())
                print(f"{number} pods: {samples[-1] / 1e6:.1f} MB", flush=True)
            if number == pods:
                return samples
    finally:
        await cluster.stop()
    return samples


def _resident() -> int:
    """Bytes of memory of this process, on Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _pod(number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "labels": {"number": str(number)}},
        "spec": {"containers": [container]},
    }
