"""The same scenes with our controllers on a real API server, where one is at hand: what they know of a
cluster comes through the port, whichever API is behind it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import pytest

from mooring.cluster.api_server import ApiServer
from mooring.cluster.cache import Cache
from mooring.cluster.controller import Context
from mooring.cluster.credentials import load_credentials
from mooring.cluster.events import EventRecorder
from tests.controllers.kit import Tree
from tests.controllers.record import Real
from tests.controllers.test_upkeep import CONTROLLERS, DATA
from tests.controllers.upkeep_scenes import play_scene
from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets

SCENES = ("gc_owners", "gc_deployment", "budgets", "volumes_static")


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


async def play_live(plane: ControlPlane, name: str) -> Tree:
    credentials = load_credentials(str(plane.kubeconfig()))
    cluster = ApiServer(credentials, qps=-1)
    recorder = EventRecorder(cluster, ["controllers"])
    context = Context(cluster, Cache(cluster), recorder, time.time)
    running = [make(context) for make in CONTROLLERS]
    runs = [context.cache.run(), recorder.run(), *(one.run() for one in running)]
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        await context.cache.synced.wait()
        return await play_scene(name, Real(cluster, time.time))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(plane: ControlPlane, name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    found = asyncio.run(play_live(plane, name))
    for page, expected in zip(found["pages"], recorded["pages"], strict=True):
        assert page == expected, f"after: {expected['after']}"
    assert found["events"] == recorded["events"]
