"""The scheduler of a local cluster: the live one, over the port that needs no HTTP."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from mooring import __version__
from mooring.api.kinds import PODS
from mooring.client.cache import Cache
from mooring.client.event_recorder import EventRecorder
from mooring.client.parallel import Threads
from mooring.client.port import Cluster
from mooring.config import LoadedConfig
from mooring.core.decision import Decision
from mooring.core.intake import kinds_of_plugins
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog, Recording
from mooring.extender.calling.live import LiveExtenders
from mooring.process.driver import Driver
from mooring.process.routes import decision_routes
from mooring.runtime.registry import Registry
from mooring.sandbox.cluster.work import Work
from mooring.serving.messages import Handler

USER_AGENT = f"mooring/{__version__}"
TURN = 0.02  # seconds of scheduling at a time; where nobody's answers are waited for, longer turns pay
LAST_WORDS = 2.0  # seconds for events that are not posted yet


class LocalScheduler:
    """Making one raises ConfigError or PluginError where the configuration is wrong; nothing runs before
    `start`."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        config: LoadedConfig,
        registry: Registry,
        *,
        clock: Callable[[], float],
        seed: int | None = None,
        recording: Recording = Recording.SUMMARY,
        on_decision: Callable[[Decision], None] | None = None,
    ) -> None:
        self.decisions = DecisionLog(recording)
        self._extenders = LiveExtenders(config)
        self.core = Scheduler(
            config,
            clock=clock,
            pick=random.Random(seed).randrange,
            registry=registry,
            extenders=self._extenders.extenders,
            log=self.decisions,
            parallelize=Threads(config.config.parallelism),
        )
        self._recorder = EventRecorder(
            cluster, next(iter(self.core.profiles)), now=lambda: round(clock() * 1_000_000_000)
        )
        self._driver = Driver(self.core, cluster, self._recorder, on_decision=on_decision, turn=TURN)
        self._informers = self._extenders.informers(
            cluster, self._driver, kinds_of_plugins(self.core), cache.informer(PODS)
        )
        self._work = Work()

    def pages(self) -> dict[str, Handler]:
        """Return the paths that `mooring explain` requests, to be served next to the API."""
        return decision_routes(self.core, self.decisions, self._driver.ask)

    def start(self) -> None:
        self._work.begin("the scheduler's informers", self._informers.run())
        self._work.begin("the scheduler's events", self._recorder.run())
        self._work.begin("the scheduler's status writer", self._driver.statuses.run())
        self._scheduling = self._work.begin("the scheduler", self._run())

    async def _run(self) -> None:
        await self._informers.synced.wait()
        await self._driver.run()

    async def stop(self) -> None:
        """Take no more pods; what is on its way arrives."""
        self._driver.stop()
        if not self._informers.synced.is_set():
            self._scheduling.cancel()
        await asyncio.wait([self._scheduling])
        await self._recorder.close(LAST_WORDS)
        await self._work.end()
        self._extenders.close()
