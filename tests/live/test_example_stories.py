"""The stories of the examples on a real API server, with the real kube-controller-manager and fake nodes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.client.api_server import ApiServer
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.credentials import load_credentials
from mooring.sandbox.kubelet import FakeNodes, make_nodes
from tests.examples.stories import STORIES, Teller
from tests.live.control_plane import ControlPlane
from tests.live.replica import wait_for

CONTROLLERS = ("deployment-controller", "replicaset-controller", "garbage-collector-controller")


@contextmanager
def fake_nodes(kubeconfig: Path, count: int) -> Iterator[None]:
    """Nodes that run pods, in a thread of their own."""
    ready, over = threading.Event(), threading.Event()

    async def main() -> None:
        cluster = ApiServer(load_credentials(str(kubeconfig)), qps=-1)
        cache, recorder = Cache(cluster), CountingRecorder(cluster)
        nodes = FakeNodes(Context(cluster, cache, recorder, time.time))
        tasks = [asyncio.create_task(part.run()) for part in (cache, recorder, nodes)]
        try:
            await cache.synced.wait()
            await nodes.register(make_nodes(count))
            ready.set()
            while not over.is_set():
                await asyncio.sleep(0.1)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await cluster.close()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        over.set()
        thread.join(30)


@pytest.fixture
def teller(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Teller]:
    plane = control_plane
    if not plane.has("kube-controller-manager"):
        pytest.skip("needs kube-controller-manager: put it where KUBEBUILDER_ASSETS points")
    kubeconfig = plane.kubeconfig()
    plane.start_controller_manager(*CONTROLLERS)
    try:
        with fake_nodes(kubeconfig, 3):
            yield Teller(tmp_path, kubeconfig, plane.kubectl)
            plane.kubectl("delete", "deployments,pods", "--all", "--force", "--grace-period=0")
            plane.kubectl("delete", "node", "--all")
            wait_for(lambda: not plane.kubectl("get", "pods", "-o", "name"), "the pods go")
    finally:
        plane.stop_controller_manager()


@pytest.mark.parametrize("story", STORIES)
def test_the_story(teller: Teller, story: str) -> None:
    STORIES[story](teller)
