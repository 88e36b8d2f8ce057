"""A scheduler that becomes the leader: it knows what the leader before it has bound."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from mooring.api.kinds import NODES, PODS
from mooring.client.api_errors import ApiError, Unreachable
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


def test_a_replica_that_no_longer_leads_writes_no_statuses() -> None:
    """Found by `python -m tests.faults`: it wrote those that were waiting when it lost its lease."""

    async def main() -> None:
        server, loop, leads = Server(), asyncio.get_running_loop(), True
        server.put(PODS, pod("no-node"))
        live = LiveScheduler(
            server,
            LoadedConfig(default_config()),
            registry_with(),
            clock=lambda: START + loop.time(),
            seed=0,
            may_bind=lambda: leads,
        )
        tasks = Tasks()
        for name, work in {**live.tasks(), "leading": live.lead()}.items():
            tasks.start(name, work)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(tasks.stop)
            server.refusals["patch", "pods"] = Unreachable("fake", "away")
            await asyncio.sleep(1)
            leads = False
            server.refusals.clear()
            await asyncio.sleep(60)
            assert server.condition("no-node") is None
            leads = True
            server.put(NODES, node("n0", cpu="0"))
            await asyncio.sleep(60)
            assert server.condition("no-node") is not None

    virtual_time.run(main())


def test_backoff_does_not_depend_on_the_wall_clock() -> None:
    """Found by `python -m tests.faults`: set back by an hour, the clock kept pods waiting for an hour."""

    async def main() -> None:
        server, loop, skew = Server(), asyncio.get_running_loop(), 0.0
        server.put(NODES, node("n0"))
        live = LiveScheduler(
            server,
            LoadedConfig(default_config()),
            registry_with(),
            clock=lambda: START + loop.time(),
            wall_clock=lambda: START + loop.time() + skew,
            seed=0,
        )
        tasks = Tasks()
        for name, work in {**live.tasks(), "leading": live.lead()}.items():
            tasks.start(name, work)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(tasks.stop)
            server.refusals["post", "pods"] = ApiError(500, "InternalError", "not now")
            server.put(PODS, pod("late"))
            await asyncio.sleep(1)
            skew = -3600.0
            server.refusals.clear()
            await asyncio.sleep(60)
            assert len(server.bound) == 1

    virtual_time.run(main())
