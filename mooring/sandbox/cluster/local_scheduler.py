"""The scheduler of a local cluster: the live one, over the port that needs no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring import __version__
from mooring.api.kinds import PODS
from mooring.client.cache import Cache
from mooring.client.port import Cluster
from mooring.client.tasks import Tasks
from mooring.config import LoadedConfig
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog, Recording
from mooring.process.driver import Driver
from mooring.process.live_scheduler import LiveScheduler
from mooring.process.routes import decision_routes
from mooring.runtime.registry import Registry
from mooring.serving.messages import Handler

USER_AGENT = f"mooring/{__version__}"
TURN = 0.02  # seconds of scheduling at a time; without network latency, longer turns pay off
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
        pick: Callable[[int], int] | None = None,
        recording: Recording = Recording.SUMMARY,
        decisions: DecisionLog | None = None,
        on_decision: Callable[[Decision], None] | None = None,
        keep_events: bool = True,
    ) -> None:
        self.decisions: DecisionLog = DecisionLog(recording) if decisions is None else decisions
        self._live = LiveScheduler(
            cluster,
            config,
            registry,
            clock=clock,
            seed=seed,
            pick=pick,
            decisions=self.decisions,
            on_decision=on_decision,
            turn=TURN,
            pods=cache.informer(PODS),
            keep_events=keep_events,
        )
        self._tasks = Tasks()

    @property
    def core(self) -> Scheduler:
        return self._live.core

    @property
    def driver(self) -> Driver:
        return self._live.driver

    def pages(self) -> dict[str, Handler]:
        """Return the paths that `mooring explain` requests, to be served next to the API."""
        return decision_routes(self.core, self.decisions, self._live.driver.ask)

    def start(self) -> None:
        for name, work in self._live.tasks().items():
            self._tasks.start(f"scheduler: {name}", work)
        self._scheduling = self._tasks.start("scheduler", self._live.schedule())

    async def stop(self) -> None:
        """Take no more pods; wait for what is on its way to the API server."""
        self._live.driver.stop()
        if not self._live.informers.synced.is_set():
            self._scheduling.cancel()
        await asyncio.wait([self._scheduling])
        await self._live.recorder.close(LAST_WORDS)
        await self._tasks.stop()
        self._live.close()
