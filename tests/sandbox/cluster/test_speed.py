"""Time in a sandbox runs faster where it should, and only there."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.kinds import NODES, PODS
from mooring.client.clocks import ScaledClock, real_seconds
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import make_nodes
from tests.client import virtual_time


def test_a_scaled_clock_goes_on_from_where_it_is() -> None:
    real = [100.0]
    clock = ScaledClock(lambda: real[0])
    assert clock() == 100.0
    clock.speed = 10.0
    real[0] = 101.0
    assert clock() == 110.0
    assert real_seconds(clock, 5.0) == 0.5
    clock.speed = 0.5
    real[0] = 103.0
    assert clock() == 111.0
    assert real_seconds(lambda: 0.0, 5.0) == 5.0


def test_pods_and_failing_nodes_follow_the_speed_of_time() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        clock = ScaledClock(loop.time)
        cluster = LocalCluster(serve=False, heartbeats=False, clock=clock, seed=0)
        await cluster.start()
        try:
            await cluster.schedule(LoadedConfig(default_config()), registry_with())
            await cluster.nodes.register(make_nodes(3))
            api = EmbeddedCluster(cluster.server.api, user_agent="test")
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "brief", "namespace": "default"},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "command": ["sleep", "600"]}],
                },
            }
            await api.create(PODS, pod, "default")
            pods, nodes = cluster.cache.follow(PODS), cluster.cache.follow(NODES)
            await asyncio.sleep(10)
            assert [each.status.phase for each in pods] == ["Running"]
            began = loop.time()
            cluster.set_speed(60)  # a timer for ten minutes is set already
            while [each.status.phase for each in pods] != ["Succeeded"]:
                await asyncio.sleep(0.05)
            ran = loop.time() - began
            assert all(node.ready for node in nodes)
            failed = {"metadata": {"annotations": {"mooring/failed": "true"}}}
            await api.patch(NODES, next(iter(nodes)).name, failed)
            began = loop.time()
            while all(node.ready for node in nodes):
                await asyncio.sleep(0.05)
            with pytest.raises(ValueError, match="speed: expected a number above 0 and at most 100"):
                cluster.set_speed(101)
            return ran, loop.time() - began
        finally:
            await cluster.stop()

    ran, unready = virtual_time.run(main())
    assert ran == pytest.approx(600 / 60, abs=0.5)
    assert unready < 50 / 60 + 0.5
