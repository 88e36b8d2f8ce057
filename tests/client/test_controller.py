"""Controllers: they end when they are cancelled, whatever they are doing."""

from __future__ import annotations

import asyncio

from mooring.client.api_errors import Unreachable
from mooring.client.cache import Cache
from mooring.client.controller import Context, Controller
from mooring.client.event_recorder import EventRecorder
from tests.client import virtual_time
from tests.client.fake_cluster import FakeCluster


class Thorough(Controller):
    """Writes something even when it is cancelled, which fails the first time."""

    name = "thorough-controller"
    failed = False

    async def sync(self, key: str) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            if not self.failed:
                self.failed = True
                raise Unreachable("fake", "connection refused")


def test_a_failing_cleanup_does_not_hide_a_cancellation() -> None:
    async def main() -> None:
        cluster = FakeCluster()
        cache = Cache(cluster)
        cache.synced.set()
        controller = Thorough(Context(cluster, cache, EventRecorder(cluster, "test"), lambda: 0.0))
        controller.enqueue("default/a")
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait({running}, timeout=5)
        ended = running.cancelled()
        running.cancel()
        await asyncio.wait({running})
        assert ended

    virtual_time.run(main())
