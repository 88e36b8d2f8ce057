"""`mooring node fail` and `recover`, against an embedded API server over HTTPS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from mooring.api.kinds import NODES, RESOURCE_SLICES
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.kubelet import FakeNodes, make_nodes
from tests.cli import command


async def mooring(*args: str, home: Path) -> tuple[int, str, str]:
    """Exit code, output and errors of a command, in a home of its own."""
    environment = {"HOME": str(home), "KUBECONFIG": ""}
    done = await asyncio.to_thread(partial(command.mooring, *args, environment=environment))
    return done.returncode, done.stdout, done.stderr


def with_server(scene: Callable[[EmbeddedServer, FakeNodes], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        async with EmbeddedServer() as server:
            cluster = server.cluster
            context = Context(cluster, Cache(cluster), CountingRecorder(cluster), lambda: 0.0)
            nodes = FakeNodes(context)
            tasks = [asyncio.create_task(run) for run in (context.cache.run(), nodes.run())]
            await nodes.register(make_nodes(7))
            await scene(server, nodes)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(all_of_it())


def test_nodes_fail_and_recover(tmp_path: Path) -> None:
    async def scene(server: EmbeddedServer, nodes: FakeNodes) -> None:
        changed = asyncio.Event()
        nodes.on_change(lambda name: changed.set())
        config = f"--kubeconfig={server.kubeconfig}"
        changed.clear()
        code, output, errors = await mooring("node", "fail", config, "node-1", "node-2", home=tmp_path)
        assert (code, output, errors) == (0, "node/node-1 failed\nnode/node-2 failed\n", "")
        await asyncio.wait_for(changed.wait(), 10)
        found = await server.cluster.get(NODES, "node-1")
        assert found.metadata.annotations["mooring/failed"] == "true"
        code, output, _ = await mooring("node", "recover", config, "node-1", "node-3", home=tmp_path)
        assert (code, output) == (0, "node/node-1 recovered\nnode/node-3 has not failed\n")
        found = await server.cluster.get(NODES, "node-1")
        assert "mooring/failed" not in found.metadata.annotations

    with_server(scene)


def test_unknown_nodes_are_reported_and_the_others_fail(tmp_path: Path) -> None:
    async def scene(server: EmbeddedServer, nodes: FakeNodes) -> None:
        config = f"--kubeconfig={server.kubeconfig}"
        code, output, errors = await mooring("node", "fail", config, "n1", "node-7", home=tmp_path)
        assert (code, output) == (1, "node/node-7 failed\n")
        assert "node n1: not found" in errors
        assert "hint: the cluster has node-1, node-2, node-3, node-4, node-5, …" in errors

    with_server(scene)


def test_without_a_cluster(tmp_path: Path) -> None:
    async def scene() -> None:
        code, _, errors = await mooring("node", "fail", "node-1", home=tmp_path)
        assert code == 2
        assert "kubeconfig not found" in errors
        assert "Traceback" not in errors
        nowhere = tmp_path / "config"
        nowhere.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
        )
        code, _, errors = await mooring("node", "fail", f"--kubeconfig={nowhere}", "n", home=tmp_path)
        assert code == 3
        assert "127.0.0.1:1" in errors
        assert "Traceback" not in errors
        code, _, errors = await mooring("node", "fail", home=tmp_path)
        assert code == 2
        assert "NAME" in errors

    asyncio.run(scene())


@pytest.mark.slow
def test_devices_fail_return_and_are_tainted(tmp_path: Path) -> None:
    async def scene(server: EmbeddedServer, nodes: FakeNodes) -> None:
        config = f"--kubeconfig={server.kubeconfig}"
        groups = (
            '[{"driver": "gpu.example.com", "name": "gpu", "count": 7}, {"driver": "a.b", "name": "gpu-1"}]'
        )
        annotations = {"annotations": {"mooring/devices": groups}}
        await server.cluster.patch(NODES, "node-1", {"metadata": annotations})

        async def published(condition: Callable[[dict[str, list[str]]], bool]) -> bool:
            """Wait until the devices, with their taints, meet a condition."""
            for _ in range(200):
                gpus = [
                    device
                    for each in (await server.cluster.list(RESOURCE_SLICES)).items
                    if each.spec.driver == "gpu.example.com"
                    for device in each.spec.devices
                ]
                if condition(
                    {each.name: [f"{one.key}:{one.effect}" for one in each.taints] for each in gpus}
                ):
                    return True
                await asyncio.sleep(0.05)
            return False

        code, output, errors = await mooring("node", "fail-device", config, "node-1", "gpu-0", home=tmp_path)
        assert (code, output, errors) == (0, "device/gpu.example.com/gpu-0 of node/node-1 failed\n", "")
        assert await published(lambda found: list(found) == [f"gpu-{at}" for at in range(1, 7)])
        code, _, errors = await mooring("node", "fail-device", config, "node-1", "gpu-1", home=tmp_path)
        assert (code, "hint: the node has gpu.example.com/gpu-1, a.b/gpu-1" in errors) == (1, True)
        code, _, errors = await mooring("node", "fail-device", config, "node-2", "gpu-1", home=tmp_path)
        assert (code, "node node-2: device gpu-1: not found" in errors) == (1, True)
        device = "gpu.example.com/gpu-1"
        taint = ("node", "taint-device", config, "node-1", device)
        code, output, _ = await mooring(*taint, "hot=yes:NoSchedule", "old:NoExecute", home=tmp_path)
        assert (code, output) == (0, f"device/{device} of node/node-1 tainted\n")
        assert await published(lambda found: found["gpu-1"] == ["hot:NoSchedule", "old:NoExecute"])
        code, output, _ = await mooring(*taint, "hot-", home=tmp_path)
        assert (code, output) == (0, f"device/{device} of node/node-1 untainted\n")
        assert await published(lambda found: found["gpu-1"] == ["old:NoExecute"])
        code, _, errors = await mooring(*taint, "hot:Never", home=tmp_path)
        assert (code, "taint hot:Never: invalid\nhint: " in errors) == (2, True)
        assert (await mooring("node", "recover-device", config, "node-1", "gpu-0", home=tmp_path))[0] == 0
        assert await published(lambda found: "gpu-0" in found)

    with_server(scene)
