"""Controllers: they end when they are cancelled, and recognise their own writes."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.jobs import Job, JobStatus
from mooring.api.kinds import JOBS
from mooring.client import controller as controller_module
from mooring.client.api_errors import Unreachable
from mooring.client.cache import Cache
from mooring.client.controller import Context, Controller
from mooring.client.counting_recorder import CountingRecorder
from mooring.sandbox.apiserver.server import EmbeddedServer
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
        controller = Thorough(Context(cluster, cache, CountingRecorder(cluster), lambda: 0.0))
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


class Counting(Controller):
    """Looks at Jobs that it has not changed itself."""

    name = "counting-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.jobs = context.cache.follow(JOBS)
        self.jobs.subscribe(self._changed)
        self.looks: list[str] = []

    def _changed(self, old: Job | None, new: Job | None) -> None:
        if new is not None and not self.is_own(new):
            self.looks.append(new.metadata.labels.get("by", ""))

    async def sync(self, key: str) -> None:
        raise NotImplementedError


def test_a_controller_recognises_what_it_wrote_itself() -> None:
    """Also that another client has changed the object meanwhile, which its own write is the first to show."""

    async def main() -> None:
        async with EmbeddedServer() as server:
            cluster = server.cluster
            cache = Cache(cluster)
            controller = Counting(Context(cluster, cache, CountingRecorder(cluster), lambda: 0.0))
            following = asyncio.create_task(cache.run())
            await cache.caught_up()
            container = {"name": "c", "image": "i"}
            template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
            body = {"metadata": {"name": "j"}, "spec": {"template": template}}
            job = await controller.create(controller.jobs, body, "default")
            job = await controller.write_status(controller.jobs, job, JobStatus(active=1), {"active": 1})
            assert controller.jobs.get("default/j") == job
            assert controller.looks == []
            await cluster.patch(JOBS, "j", {"metadata": {"labels": {"by": "another"}}}, "default")
            await controller.write_status(controller.jobs, job, JobStatus(active=2), {"active": 2})
            assert "another" in controller.looks
            following.cancel()

    asyncio.run(main())


class Quick(Controller):
    """Never waits for anything."""

    name = "quick-controller"

    async def sync(self, key: str) -> None:
        pass


@pytest.mark.parametrize(("seconds", "turns"), [(-1.0, 100), (3600.0, 1)])
def test_a_long_turn_is_interrupted(seconds: float, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "LONGEST_TURN", seconds)

    async def main() -> None:
        cluster = FakeCluster()
        cache = Cache(cluster)
        cache.synced.set()
        controller = Quick(Context(cluster, cache, CountingRecorder(cluster), lambda: 0.0))
        for number in range(100):
            controller.enqueue(f"default/{number}")
        running, seen = asyncio.create_task(controller.run()), 0
        while controller._due:
            await asyncio.sleep(0)
            seen += 1
        running.cancel()
        assert abs(seen - turns) <= 1

    asyncio.run(main())
