"""Our controllers on a real API server, where one is at hand: what they know of a cluster comes through the
port, whichever API is behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator

import pytest

from mooring.client.api_server import ApiServer
from mooring.client.cache import Cache
from mooring.client.controller import Context, Controller
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.credentials import load_credentials
from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.sandbox.controllers.kit import Tree
from tests.sandbox.controllers.record import Real


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    binaries = assets()
    if binaries is None:
        pytest.skip(HOW_TO_GET)
    plane = ControlPlane(binaries, tmp_path_factory.mktemp("plane"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


async def play_live(
    plane: ControlPlane,
    scene: Callable[[Real], Awaitable[Tree]],
    makers: Iterable[Callable[[Context], Controller]],
) -> Tree:
    """What is seen of a scene in real time."""
    cluster = ApiServer(load_credentials(str(plane.kubeconfig())), qps=-1)
    recorder = CountingRecorder(cluster)
    context = Context(cluster, Cache(cluster), recorder, time.time)
    running = [make(context) for make in makers]
    runs = [context.cache.run(), recorder.run(), *(one.run() for one in running)]
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        await context.cache.synced.wait()
        return await scene(Real(cluster, time.time))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()
