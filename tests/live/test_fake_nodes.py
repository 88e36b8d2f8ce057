"""Fake nodes on a real API server: it takes what they write, and pods end up as on the embedded one."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.client.api_server import ApiServer
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.credentials import load_credentials
from mooring.client.port import Cluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.kubelet import FakeNodes
from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.sandbox.controllers.kit import resource, tree_of
from tests.sandbox.kubelet.kit import Tree, node, pod

PODS: list[Tree] = [
    pod("runs"),
    pod("succeeds", run={"run-time": "1s"}, restartPolicy="Never"),
    pod("fails", run={"exit-code": "3"}, restartPolicy="Never"),
    pod("crashes", run={"run-time": "500ms", "exit-code": "1"}),
    pod("waits", run={"start-delay": "10m"}),
    pod("late", activeDeadlineSeconds=1),
    pod("too-large", cpu="100"),
    pod("gated", readinessGates=[{"conditionType": "example.com/gate"}]),
    pod(
        "with-others",
        initContainers=[
            {"name": "prepare", "image": "i"},
            {"name": "proxy", "image": "i", "restartPolicy": "Always"},
        ],
    ),
    pod("deleted"),
    pod("held", metadata={"finalizers": ["example.com/held"]}),
]


async def lives(cluster: Cluster) -> Tree:
    """What becomes of pods, and of their node."""
    cache, recorder = Cache(cluster), CountingRecorder(cluster)
    nodes = FakeNodes(Context(cluster, cache, recorder, time.time))
    tasks = [asyncio.create_task(run) for run in (cache.run(), recorder.run(), nodes.run())]
    try:
        await nodes.register([node(cpu="4")])
        for each in PODS:
            await cluster.create(resource("pods"), each, "default")
        await until(cluster, lambda found: found.get("held", {}).get("phase") == "Running")
        for name in ("deleted", "held"):
            await cluster.delete(resource("pods"), name, "default")
        await until(cluster, settled)
        found = await statuses(cluster)
        there = await cluster.get(resource("nodes"), "node-1")
        lease = await cluster.get(resource("leases"), "node-1", "kube-node-lease")
        return {**found, "the node": there.status, "the lease": lease.spec}
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def settled(found: Tree) -> bool:
    ends = {"succeeds": "Succeeded", "fails": "Failed", "late": "Failed", "held": "Failed"}
    ended = all(found.get(name, {}).get("phase") == phase for name, phase in ends.items())
    waiting = "waiting" in found["crashes"]["containerStatuses"][0]["state"]
    return ended and waiting and "deleted" not in found


async def statuses(cluster: Cluster) -> Tree:
    page = await cluster.list(resource("pods"), namespace="default")
    return {each.name: tree_of(each)["status"] for each in page.items}


async def until(cluster: Cluster, condition: Callable[[Tree], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition(await statuses(cluster)):
            await asyncio.sleep(0.1)


def normalised(found: Tree) -> Any:
    """Without what differs from run to run: times, uids and what is made of them."""
    text = msgspec.json.encode(found, order="deterministic").decode()
    text = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", text)
    text = re.sub(r"containerd://[0-9a-f]{64}", "CONTAINER", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r"\b10\.64\.\d+\.\d+", "ADDRESS", text)  # in the order of their beginning
    return msgspec.json.decode(text)


def test_pods_live_on_a_real_api_server_as_on_the_embedded_one(tmp_path: Path) -> None:
    binaries = assets()
    if binaries is None:
        pytest.skip(HOW_TO_GET)

    async def embedded() -> Tree:
        server = EmbeddedServer()
        server.open()
        try:
            return await lives(server.cluster)
        finally:
            await server.stop()

    plane = ControlPlane(binaries, tmp_path)  # of its own: fake nodes take care of all nodes there are
    try:
        plane.start()
        real = asyncio.run(on_api_server(plane, lives))
    finally:
        plane.stop()
    assert normalised(real) == normalised(asyncio.run(embedded()))


async def on_api_server(plane: ControlPlane, act: Callable[[Cluster], Awaitable[Tree]]) -> Tree:
    api = ApiServer(load_credentials(str(plane.kubeconfig())), qps=-1)
    try:
        return await act(api)
    finally:
        await api.close()
