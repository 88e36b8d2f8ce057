"""What a whole cluster runs on: the sandbox, or at depth `perf` also a real API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from mooring import __version__
from mooring.api.kinds import NAMESPACES, NODES, PODS, ApiResource
from mooring.api.meta import KubeObject, Tree
from mooring.client.api_errors import ApiError
from mooring.client.api_server import ApiServer
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.credentials.loading import load_user_credentials
from mooring.client.port import Cluster
from mooring.client.tasks import Tasks
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.cluster.local_scheduler import LocalScheduler
from mooring.sandbox.kubelet import FakeNodes
from mooring.simulate.policies import Policy

QPS = 5000  # requests per second of a client, as scheduler_perf has it
USER_AGENT = f"mooring-simulate/{__version__}"

OnDecision = Callable[[Decision], None]


class Backend(Protocol):
    """An API server with fake nodes, and a scheduler from `schedule` on."""

    @property
    def api(self) -> Cluster: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def nodes(self) -> FakeNodes: ...
    @property
    def core(self) -> Scheduler: ...

    async def start(self) -> None: ...
    async def apply(self, tree: Tree) -> None: ...
    async def create_pod(self, tree: Tree, namespace: str) -> None: ...
    async def resource(self, tree: Tree) -> ApiResource[KubeObject] | None: ...
    async def schedule(self, policy: Policy, seed: int, on_decision: OnDecision) -> None: ...
    async def stop(self) -> None: ...


class SandboxBackend:
    """The sandbox, with its controllers."""

    def __init__(self, clock: Callable[[], float], seed: int, keep_events: bool) -> None:
        self._local = LocalCluster(
            serve=False, heartbeats=False, keep_events=keep_events, clock=clock, seed=seed
        )

    @property
    def api(self) -> Cluster:
        return self._local.server.cluster

    @property
    def cache(self) -> Cache:
        return self._local.cache

    @property
    def nodes(self) -> FakeNodes:
        return self._local.nodes

    @property
    def core(self) -> Scheduler:
        assert self._local.scheduler is not None
        return self._local.scheduler.core

    async def start(self) -> None:
        await self._local.start()

    async def apply(self, tree: Tree) -> None:
        await self._local.applier.apply(tree, "scenario")

    async def create_pod(self, tree: Tree, namespace: str) -> None:
        await self.api.create(PODS, tree, namespace)

    async def resource(self, tree: Tree) -> ApiResource[KubeObject] | None:
        served = self._local.server.api.registry.of_kind(tree.get("apiVersion", "v1"), tree["kind"])
        if served is None:
            return None
        return ApiResource(served.group, served.version, served.plural, served.namespaced, KubeObject)

    async def schedule(self, policy: Policy, seed: int, on_decision: OnDecision) -> None:
        await self._local.schedule(
            policy.load(), policy.registry(), on_decision=on_decision, pick=policy.pick(seed)
        )

    async def stop(self) -> None:
        await self._local.stop()


class ApiServerBackend:
    """A real API server without a scheduler; kubelets are fake. What was created is deleted at the end, apart
    from namespaces."""

    def __init__(self, kubeconfig: str, seed: int) -> None:
        credentials = load_user_credentials(kubeconfig, "")
        self._clients = [ApiServer(credentials, qps=QPS, burst=QPS, user_agent=USER_AGENT) for _ in range(2)]
        self.api: Cluster = self._clients[0]
        self.cache = Cache(self.api)
        recorder = CountingRecorder(self._clients[1])
        self._context = Context(self.api, self.cache, recorder, time.time)
        self._recorder = recorder
        self.nodes = FakeNodes(self._context)
        self._seed = seed
        self._scheduler: LocalScheduler | None = None
        self._tasks = Tasks()
        self._kinds: dict[tuple[str, str], ApiResource[Any]] = {}
        self._created: list[tuple[ApiResource[Any], str, str]] = []
        self._namespaces: set[str] = set()
        self._others: set[str] = set()  # nodes that were there before

    @property
    def core(self) -> Scheduler:
        assert self._scheduler is not None
        return self._scheduler.core

    async def start(self) -> None:
        self.cache.follow(PODS)
        nodes = self.cache.follow(NODES)
        self._tasks.start("informers", self.cache.run())
        self._tasks.start("events", self._recorder.run())
        self._tasks.start("fake nodes", self.nodes.run())
        await self.cache.synced.wait()
        self._others = {node.name for node in nodes}
        for served in await self.api.served_kinds():
            self._kinds[served.resource.group, served.kind] = served.resource

    async def apply(self, tree: Tree) -> None:
        """Create an object, or patch the one that is there."""
        resource = await self.resource(tree)
        if resource is None:
            raise ValueError(
                f"{tree.get('apiVersion')} {tree['kind']}: the API server does not serve this kind"
            )
        metadata = tree["metadata"]
        namespace = metadata.get("namespace") or "default" if resource.namespaced else ""
        try:
            await self._create(resource, _without_identity(tree), namespace)
        except ApiError as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            await self.api.patch(resource, metadata["name"], _without_identity(tree), namespace)

    async def create_pod(self, tree: Tree, namespace: str) -> None:
        await self._create(PODS, tree, namespace)

    async def _create(self, resource: ApiResource[Any], tree: Tree, namespace: str) -> None:
        if namespace and namespace not in self._namespaces:
            self._namespaces.add(namespace)
            with suppress(ApiError):
                await self.api.create(NAMESPACES, {"metadata": {"name": namespace}})
        made = await self.api.create(resource, tree, namespace)
        self._created.append((resource, made.name, namespace))

    async def resource(self, tree: Tree) -> ApiResource[KubeObject] | None:
        group = str(tree.get("apiVersion", "v1")).rpartition("/")[0]
        return self._kinds.get((group, tree["kind"]))

    async def schedule(self, policy: Policy, seed: int, on_decision: OnDecision) -> None:
        self._scheduler = LocalScheduler(
            self.api,
            self.cache,
            policy.load(),
            policy.registry(),
            clock=time.time,
            seed=self._seed,
            on_decision=on_decision,
            pick=policy.pick(seed),
        )
        self._scheduler.start()

    async def stop(self) -> None:
        try:
            if self._scheduler is not None:
                await self._scheduler.stop()
            nodes = [node.name for node in self.cache.follow(NODES) if node.name not in self._others]
            for resource, name, namespace in [*reversed(self._created), *((NODES, n, "") for n in nodes)]:
                with suppress(ApiError):
                    await self.api.delete(resource, name, namespace, grace_period_seconds=0)
        finally:
            await self._tasks.stop()
            for client in self._clients:
                await client.close()


def _without_identity(tree: Mapping[str, Any]) -> Tree:
    metadata = {key: value for key, value in tree["metadata"].items() if key != "uid"}
    return {**tree, "metadata": metadata}


class WallClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time` is in seconds since the epoch, as that of the loop on virtual time."""

    def __init__(self) -> None:
        self._offset = 0.0
        super().__init__()
        self._offset = time.time() - super().time()

    def time(self) -> float:
        return super().time() + self._offset
