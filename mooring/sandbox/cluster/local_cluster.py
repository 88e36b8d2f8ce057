"""LocalCluster: the parts of a cluster put together, started and stopped in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

from mooring import __version__
from mooring.api.kinds import COSCHEDULING_POD_GROUPS, CUSTOM_RESOURCE_DEFINITIONS
from mooring.client.cache import Cache
from mooring.client.clocks import ScaledClock
from mooring.client.controller import Context, Controller
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.tasks import Tasks
from mooring.config import LoadedConfig
from mooring.core.decision import Decision
from mooring.explain.log import Recording
from mooring.runtime.registry import Registry
from mooring.sandbox.apiserver.bootstrap import bootstrap_flows, publish_components
from mooring.sandbox.apiserver.custom.metrics_group import serve_metrics
from mooring.sandbox.apiserver.derived import publish_group_versions
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.cluster.applying import Applier
from mooring.sandbox.cluster.component_leases import CONTROLLERS, SCHEDULER, ComponentLeases
from mooring.sandbox.cluster.coscheduling import DEFINITION
from mooring.sandbox.cluster.local_scheduler import USER_AGENT, LocalScheduler
from mooring.sandbox.controllers.all_controllers import controllers
from mooring.sandbox.kubelet import FakeNodes

HIGHEST_SPEED = 100.0
MOST_RENEWALS = 1000  # of leases in a second
MANAGER = f"mooring-controllers/{__version__}"
STANDARD = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "simulated.mooring",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""What claims without a class get, as in other clusters that are for trying things."""


class LocalCluster:
    """An API server, controllers and fake nodes, and a scheduler once `schedule` is called.

    Everything runs on the event loop on which `start` is called, by that loop's time and the `clock`. With
    `serve`, kubectl and others reach it by the kubeconfig of `server`; without, only this process does.
    Without `keep_events`, no component records events about objects. `features` are the feature gates of the
    API server and the controllers that are on; the scheduler has those of its configuration. With
    `coscheduling`, the PodGroups of scheduler-plugins are served.
    Images that match one of the shell patterns in `missing_images` cannot be pulled.
    Containers take `stop_time` seconds to stop, unless an annotation of their pod says otherwise.
    """

    def __init__(
        self,
        *,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        serve: bool = True,
        heartbeats: bool = True,
        keep_events: bool = True,
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
        features: Collection[str] = (),
        coscheduling: bool = False,
        missing_images: Collection[str] = (),
        stop_time: float = 0.0,
    ) -> None:
        self.server = EmbeddedServer(
            data_dir,
            host,
            port,
            clock=clock,
            seed=seed,
            features=features,
            # no client of a cluster that is not served could use the tokens
            disable_admission_plugins=() if serve else ("ServiceAccount",),
        )
        self.clock = clock
        self.scheduler: LocalScheduler | None = None
        self._serve = serve
        self._heartbeats = heartbeats
        self._missing_images = missing_images
        self._stop_time = stop_time
        self._keep_events = keep_events
        self._seed = seed
        self._features = features
        self._coscheduling = coscheduling
        self._tasks = Tasks()
        self._controllers: list[Controller] = []
        self._leases: ComponentLeases | None = None
        self._writes: EmbeddedCluster
        self.cache: Cache
        self.context: Context
        self.nodes: FakeNodes
        self.applier: Applier

    async def start(self) -> None:
        """Begin everything but scheduling."""
        if self._serve:
            await self.server.start()
        else:
            self.server.open()
        api = self.server.api
        serve_metrics(api.registry)
        publish_group_versions(api)
        if self._serve:
            publish_components(api)
            bootstrap_flows(api)
        writes = self._writes = EmbeddedCluster(api, user_agent=MANAGER, tracked=False)
        self.applier = Applier(
            EmbeddedCluster(api, user_agent="mooring-apply"),
            EmbeddedCluster(api, user_agent="mooring-apply", strict=True),
            api.registry,
        )
        if not api.store.table("storageclasses.storage.k8s.io").records:
            await self.applier.apply(STANDARD, "the default StorageClass")
        definitions = api.store.table(CUSTOM_RESOURCE_DEFINITIONS.name).records
        if self._coscheduling and COSCHEDULING_POD_GROUPS.name not in definitions:
            await self.applier.apply(DEFINITION, "the CustomResourceDefinition of PodGroups")
        self.cache = Cache(writes)
        recorder = CountingRecorder(
            writes,
            now=lambda: round(self.clock() * 1_000_000_000),
            keep=self._keep_events,
        )
        context = self.context = Context(writes, self.cache, recorder, self.clock)
        self.nodes = FakeNodes(
            context,
            heartbeats=self._heartbeats,
            missing_images=self._missing_images,
            stop_time=self._stop_time,
            runs=api.runs,
            loads=api.loads,
            servers=api.servers if self._serve else None,
            issue_token=self.server.issue_token,
        )
        api.containers, api.network = self.nodes.containers, self.nodes.network
        if self._serve:
            self.nodes.network.components = self.server.in_cluster
        for controller in controllers(
            context,
            self.nodes,
            self.server.signer,
            self._features,
            self._coscheduling,
            self.server.check_policy_types,
            api.loads,
        ):
            self.begin(controller)
        if self._serve:
            self._leases = ComponentLeases(context)
            self._leases.enqueue(CONTROLLERS)
            self.begin(self._leases)
        self._tasks.start("fake nodes", self.nodes.run())
        self._tasks.start("controllers: informers", self.cache.run())
        self._tasks.start("controllers: events", recorder.run())
        await self.cache.synced.wait()

    def begin(self, controller: Controller) -> None:
        """Run one more controller, made with `context`, until the cluster stops."""
        self._controllers.append(controller)
        self._tasks.start(controller.name, controller.run())

    @property
    def speed(self) -> float:
        """How many times as fast as the time of day the cluster's time runs."""
        return self.clock.speed if isinstance(self.clock, ScaledClock) else 1.0

    def set_speed(self, speed: float) -> None:
        """Let time run faster or slower, which needs a ScaledClock. Raises ValueError."""
        if not isinstance(self.clock, ScaledClock):
            raise ValueError("speed: the clock of this cluster has a fixed speed")
        highest = self._highest_speed()
        if not 0 < speed <= highest:
            raise ValueError(
                f"speed: expected a number above 0 and at most {highest:g}: nodes renew their leases in time"
            )
        factor = speed / self.clock.speed
        self.clock.speed = speed
        self.nodes.speed_changed(factor)
        for controller in self._controllers:
            controller.speed_changed(factor)
        if self.scheduler is not None:
            self.scheduler.driver.speed_changed()

    def _highest_speed(self) -> float:
        """Return the speed at which this process can still renew the leases of all nodes."""
        renewals = self.nodes.renewals_per_second()
        return min(HIGHEST_SPEED, max(1.0, MOST_RENEWALS // renewals)) if renewals else HIGHEST_SPEED

    async def schedule(
        self,
        config: LoadedConfig,
        registry: Registry,
        *,
        recording: Recording = Recording.SUMMARY,
        on_decision: Callable[[Decision], None] | None = None,
        pick: Callable[[int], int] | None = None,
    ) -> None:
        """Schedule by this configuration from now on, in the place of the scheduler there was. Where the
        configuration is wrong, that one stays; raises ConfigError or PluginError."""
        new = LocalScheduler(
            self._writes.for_writer(USER_AGENT),
            self.cache,
            config,
            registry,
            clock=self.clock,
            seed=self._seed,
            recording=recording,
            decisions=None if self.scheduler is None else self.scheduler.decisions,
            on_decision=on_decision,
            pick=pick,
            keep_events=self._keep_events,
        )
        old, self.scheduler = self.scheduler, new
        self.server.pages.update(new.pages())
        if old is not None:
            try:
                await old.stop()
            except BaseException:
                self.scheduler = old  # to be stopped with the cluster
                raise
        new.start()
        if self._leases is not None:
            self._leases.enqueue(SCHEDULER)

    async def stop(self) -> None:
        """End everything in order."""
        if self.scheduler is not None:
            await self.scheduler.stop()
        await self._tasks.stop()
        await self.server.stop()
