"""A cluster of fake nodes in virtual time, without a scheduler: pods name their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mooring.api.kinds import PODS
from mooring.api.objects import Pod
from mooring.client.cache import Cache, Collection
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.port import PatchType
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.kubelet import FakeNodes
from tests.sandbox.controllers.kit import Stage, resource

T = TypeVar("T")
N = TypeVar("N", bound="Nodes")
Tree = dict[str, Any]


class Nodes(Stage):
    """What is to be seen of fake nodes and their pods."""

    def __init__(self, server: EmbeddedServer, clock: Callable[[], float], heartbeats: bool) -> None:
        super().__init__(server.cluster, clock)
        self.missing_images: list[str] = []
        self.server = server
        self._heartbeats = heartbeats
        self._tasks: list[asyncio.Task[None]] = []
        self.fake: FakeNodes
        self.pods: Collection[Pod]

    def begin(self) -> None:
        """Begin the fake nodes' process, which knows nothing but what the API server tells."""
        cache = Cache(self.cluster)
        recorder = CountingRecorder(self.cluster, now=lambda: round(self.now() * 1_000_000_000))
        context = Context(self.cluster, cache, recorder, self.now)
        self.fake = FakeNodes(
            context,
            heartbeats=self._heartbeats,
            missing_images=self.missing_images,
            runs=self.server.api.runs,
            loads=self.server.api.loads,
            issue_token=self.server.issue_token,
        )
        self.server.api.containers, self.server.api.network = self.fake.containers, self.fake.network
        self.pods = cache.follow(PODS)
        runs = (cache.run(), recorder.run(), self.fake.run())
        self._tasks = [asyncio.create_task(run) for run in runs]

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that happens meanwhile."""
        await asyncio.sleep(seconds)

    async def rest(self) -> None:
        await asyncio.sleep(0.001)

    # ---- pods

    async def run_pod(self, name: str = "web", **fields: Any) -> Tree:
        """Create a pod, and have it looked after."""
        await self.create(pod(name, **fields))
        await self.rest()
        return await self.get("pods", name)

    async def status(self, name: str = "web") -> Tree:
        status: Tree = (await self.get("pods", name))["status"]
        return status

    async def phase(self, name: str = "web") -> str:
        return str((await self.status(name)).get("phase"))

    async def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in await self.all("pods")]

    async def reasons(self, name: str = "web") -> list[str]:
        """The reasons of the events about a pod."""
        return [each.reason for each in await self.events() if each.involved_object.get("name") == name]

    # ---- nodes

    async def node(self, name: str = "node-1") -> Tree:
        return await self.get("nodes", name)

    async def annotate(self, name: str, value: str | None) -> None:
        patch = {"metadata": {"annotations": {"mooring/failed": value}}}
        await self.cluster.patch(resource("nodes"), name, patch, kind=PatchType.MERGE)
        await self.rest()


def play(
    scene: Callable[[Nodes], Awaitable[T]], *, nodes: list[Tree] | None = None, heartbeats: bool = False
) -> T:
    """Run a scene on fake nodes: node-1, or those given."""
    return play_on(Nodes, scene, nodes=nodes, heartbeats=heartbeats)


def play_on(
    kind: type[N],
    scene: Callable[[N], Awaitable[T]],
    *,
    nodes: list[Tree] | None = None,
    heartbeats: bool = False,
) -> T:
    """Run a scene on fake nodes, on a stage of a kind."""

    async def all_of_it() -> T:
        loop = asyncio.get_running_loop()
        server = EmbeddedServer(clock=loop.time, seed=1)
        server.open()
        stage = kind(server, loop.time, heartbeats)
        stage.begin()
        try:
            await stage.fake.register([node()] if nodes is None else nodes)
            await stage.rest()
            return await scene(stage)
        finally:
            await stage.end()
            await server.stop()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(all_of_it())


# ---- manifests


def node(name: str = "node-1", **capacity: str) -> Tree:
    tree: Tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    if capacity:
        tree["status"] = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110", **capacity}}
    return tree


def pod(
    name: str = "web", *, node: str = "node-1", cpu: str = "", run: Tree | None = None, **spec: Any
) -> Tree:
    """A pod that is bound already; `run` holds annotations, without their prefix."""
    container: Tree = {"name": "main", "image": "web:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    metadata: Tree = {"name": name}
    if "metadata" in spec:
        metadata |= spec.pop("metadata")
    if run:
        metadata["annotations"] = {f"mooring/{key}": value for key, value in run.items()}
    spec = {"nodeName": node, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def condition(obj: Tree, type: str) -> Tree:
    found: Tree = next((one for one in obj["status"].get("conditions", ()) if one["type"] == type), {})
    return found
