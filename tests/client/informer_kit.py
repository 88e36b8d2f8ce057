"""Informers at work on a small API server in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from mooring.api.kinds import PODS
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.client.informers import NOT_TERMINAL, Informer, Informers
from tests.client import virtual_time
from tests.client.fake_cluster import FakeCluster, Tree

MINUTE = 60.0


class Recorded:
    """A sink that keeps what it was told, and what that amounts to."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.objects: dict[str, KubeObject] = {}  # by kind and uid, as the scheduler keeps pods
        self.refuse: Callable[[KubeObject], Exception | None] = lambda obj: None

    def apply(self, obj: KubeObject) -> None:
        error = self.refuse(obj)
        if error is not None:
            raise error
        self.told.append(f"+{obj.key}@{obj.metadata.resource_version}")
        self.objects[obj.uid] = obj

    def delete(self, obj: KubeObject) -> None:
        self.told.append(f"-{obj.key}")
        self.objects.pop(obj.uid, None)

    def new(self) -> list[str]:
        told, self.told = self.told, []
        return told

    @property
    def keys(self) -> list[str]:
        return sorted(obj.key for obj in self.objects.values())


def pod(name: str, **more: Any) -> Tree:
    return {"metadata": {"name": name, "namespace": "default"}, **more}


def node(name: str) -> Tree:
    return {"metadata": {"name": name}}


@asynccontextmanager
async def running(informer: Informer[Any] | Informers) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(informer.run())
    try:
        yield task
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextmanager
def unseen(cluster: FakeCluster) -> Iterator[None]:
    """What happens meanwhile does not reach the watch, which ends; and the server forgets it."""
    (watch,) = cluster.watches
    watch.stall()
    yield
    cluster.compact()
    watch.items.clear()
    watch.stalled = False
    watch.cut()


async def settled() -> None:
    """Let everybody on the loop come to rest, in next to no time."""
    await asyncio.sleep(0.001)


Scenario = Callable[[FakeCluster, Recorded, Informer[Pod]], Awaitable[None]]


def following_pods(scenario: Scenario, *, page_size: int = 500) -> None:
    """Run a scenario on a cluster with the pods a, b and c, which an informer has just listed."""

    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        for name in "abc":
            cluster.put(PODS, pod(name))
        informer = Informer(cluster, PODS, sink, field_selector=NOT_TERMINAL, page_size=page_size)
        async with running(informer):
            await informer.synced.wait()
            await settled()
            assert sink.keys == ["default/a", "default/b", "default/c"]
            await scenario(cluster, sink, informer)

    virtual_time.run(main())
