"""A scheduler that becomes the leader: it knows what the leader before it has bound."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from mooring.api.kinds import NODES, PODS
from mooring.client.tasks import Tasks
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.process.live_scheduler import LiveScheduler
from tests.client import virtual_time
from tests.process.driven import START, Server, node, pod


def test_a_new_leader_does_not_trust_a_watch_that_is_behind() -> None:
    async def main() -> None:
        server, loop = Server(), asyncio.get_running_loop()
        server.put(NODES, node("n0"))
        config = LoadedConfig(default_config())
        live = LiveScheduler(server, config, registry_with(), clock=lambda: START + loop.time(), seed=0)
        tasks = Tasks()
        for name, work in live.tasks().items():
            tasks.start(name, work)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(tasks.stop)
            await live.informers.synced.wait()
            server.stall_watches()
            server.put(PODS, pod("first", on="n0", cpu="3"))  # by the leader before
            server.put(PODS, pod("second", cpu="3"))
            tasks.start("leading", live.lead())
            await asyncio.sleep(5)
            assert server.bound == []
            condition = server.condition("second")
            assert condition is not None
            assert condition["reason"] == "Unschedulable"

    virtual_time.run(main())
