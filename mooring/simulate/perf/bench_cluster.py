"""Where scheduler_perf's workloads run: an API server, a scheduler and few controllers.

There are no kubelets and no node lifecycle: pods that are bound stay as they are.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from mooring import __version__
from mooring.api.kinds import PODS, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.client.api_server import ApiServer
from mooring.client.cache import Cache, Collection
from mooring.client.controller import Context, Controller
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.credentials import load_credentials
from mooring.client.port import Cluster
from mooring.client.tasks import Tasks
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.config import FeatureGates, LoadedConfig
from mooring.metrics import SchedulerMetrics
from mooring.process.live_scheduler import LiveScheduler
from mooring.runtime.registry import Registry
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.controllers.garbage_collector import GarbageCollector
from mooring.sandbox.controllers.resource_claim import ResourceClaimController
from mooring.simulate.perf.volumes import PreboundVolumes

DISABLED_ADMISSION = ("ServiceAccount", "TaintNodesByCondition", "Priority")
"""So that `priority` in a template needs no PriorityClass and nodes need no kubelet."""
_SERVED = frozenset({"DRADeviceTaintRules"})  # upstream's API server has all versions of resource.k8s.io
QPS = 5000  # requests per second of a client, as upstream
LAST_WORDS = 2.0  # seconds for events that are not posted yet
USER_AGENT = f"mooring-perf/{__version__}"


class BenchCluster:
    """A cluster for one workload: the sandbox, or with a kubeconfig a real API server."""

    def __init__(
        self,
        config: LoadedConfig,
        registry: Registry,
        *,
        kubeconfig: str = "",
        claims: bool = False,
        seed: int = 0,
    ) -> None:
        self._config, self._registry, self._kubeconfig = config, registry, kubeconfig
        self._claims, self._seed = claims, seed
        self.random = random.Random(seed)
        self.virtual = isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        self.clock: Callable[[], float] = asyncio.get_running_loop().time if self.virtual else time.time
        self.metrics = SchedulerMetrics(sample_every=1)
        self._server: EmbeddedServer | None = None
        self._clients: list[Cluster] = []
        self._tasks = Tasks()
        self.cluster: Cluster
        self.pods: Collection[Pod]
        self.scheduler: LiveScheduler
        self._kinds: dict[tuple[str, str], ApiResource[Any]] = {}

    async def start(self) -> None:
        cluster, events = self.cluster, _ = await self._connect()
        cache = Cache(cluster)
        self.pods = cache.follow(PODS)
        recorder = CountingRecorder(events, now=lambda: round(self.clock() * 1_000_000_000))
        context = Context(cluster, cache, recorder, self.clock)
        controllers: list[Controller] = [PreboundVolumes(context)]
        if self._claims:
            controllers += [ResourceClaimController(context), GarbageCollector(context)]
        self.scheduler = LiveScheduler(
            cluster,
            self._config,
            self._registry,
            events=events,
            clock=self.clock,
            seed=self._seed,
            observer=self.metrics,
            pods=cache.informer(PODS),
        )
        for controller in controllers:
            self._tasks.start(controller.name, controller.run())
        self._tasks.start("informers", cache.run())
        self._tasks.start("events", recorder.run())
        for name, work in self.scheduler.tasks().items():
            self._tasks.start(f"scheduler: {name}", work)
        self._scheduling = self._tasks.start("scheduler", self.scheduler.schedule())
        await cache.synced.wait()
        await self.scheduler.informers.synced.wait()

    async def _connect(self) -> tuple[Cluster, Cluster]:
        if not self._kubeconfig:
            self._server = EmbeddedServer(
                clock=self.clock,
                seed=self._seed,
                disable_admission_plugins=DISABLED_ADMISSION,
                features=FeatureGates(self._config.config.feature_gates).enabled() | _SERVED,
            )
            self._server.open()
            port = EmbeddedCluster(self._server.api, user_agent=USER_AGENT, tracked=False)
            return port, port
        credentials = load_credentials(self._kubeconfig, "")
        self._clients = [ApiServer(credentials, qps=QPS, burst=QPS, user_agent=USER_AGENT) for _ in range(2)]
        return self._clients[0], self._clients[1]

    async def resource(self, tree: dict[str, Any]) -> ApiResource[Any]:
        """How objects like this one are served. Raises LookupError.

        A version that the sandbox does not serve is replaced in the object by the one it does: beta versions
        have the same fields."""
        api_version, kind = str(tree.get("apiVersion", "")), str(tree.get("kind", ""))
        group, _, version = api_version.rpartition("/")
        if (group, kind) not in self._kinds:
            for served in await self.cluster.served_kinds():
                self._kinds[served.resource.group, served.kind] = served.resource
        kind_served = self._kinds.get((group, kind))
        if kind_served is None:
            raise LookupError(f'no kind "{kind}" is served in {api_version}')
        if (
            self._server is not None
            and self._server.api.registry.find(group, version, kind_served.plural) is None
        ):
            tree["apiVersion"], version = kind_served.api_version, kind_served.version
        return ApiResource(kind_served.group, version, kind_served.plural, kind_served.namespaced, KubeObject)

    async def stop(self) -> None:
        self.scheduler.driver.stop()
        if not self.scheduler.informers.synced.is_set():
            self._scheduling.cancel()
        await asyncio.wait([self._scheduling])
        await self.scheduler.recorder.close(LAST_WORDS)
        await self._tasks.stop()
        self.scheduler.close()
        for client in self._clients:
            await client.close()
        if self._server is not None:
            await self._server.stop()
