"""Another scheduler takes the place of the one that a cluster has."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.kinds import PODS
from mooring.config import LoadedConfig, default_config, from_object
from mooring.config.enabling import config_with
from mooring.core.build import registry_with
from mooring.framework import CycleState, Plugin, PodInfo
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import make_nodes
from tests.client import virtual_time


class Slow(Plugin):
    """Has every pod wait for a minute before it is bound."""

    name = "Slow"

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        await asyncio.sleep(60)


def test_the_cluster_ends_in_order_while_the_old_scheduler_is_waited_for() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        cluster = LocalCluster(serve=False, heartbeats=False, clock=loop.time, seed=0)
        await cluster.start()
        await cluster.schedule(from_object(config_with([Slow])), registry_with([Slow]))
        await cluster.nodes.register(make_nodes(1))
        api = EmbeddedCluster(cluster.server.api, user_agent="test")
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await api.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, "default")
        await asyncio.sleep(5)
        old = cluster.scheduler
        replacing = asyncio.create_task(cluster.schedule(LoadedConfig(default_config()), registry_with()))
        await asyncio.sleep(1)
        assert cluster.scheduler is not old
        replacing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await replacing
        assert cluster.scheduler is old
        await cluster.stop()

    virtual_time.run(main())
