"""A scheduler connected to a cluster: the core with its extenders, events, driver and informers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from mooring.client.event_recorder import EventRecorder
from mooring.client.informers import Informer
from mooring.client.parallel import Threads
from mooring.client.port import Cluster
from mooring.config import LoadedConfig
from mooring.core.decision import Decision
from mooring.core.intake import kinds_of_plugins
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog
from mooring.extender.calling.live import LiveExtenders
from mooring.process.driver import TURN, Driver
from mooring.runtime.observer import Observer
from mooring.runtime.registry import Registry


class LiveScheduler:
    """Nothing runs before `tasks` are started. Raises ConfigError or PluginError.

    Events are posted through `events`, everything else goes through `cluster`. `pods` is an informer that
    others run already. `pick` replaces the choice at random that `seed` begins. `clock` is for backoff and
    timeouts and should be steady; `wall_clock`, by default the same, is for the times that are written.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: LoadedConfig,
        registry: Registry,
        *,
        events: Cluster | None = None,
        clock: Callable[[], float] = time.time,
        wall_clock: Callable[[], float] | None = None,
        seed: int | None = None,
        pick: Callable[[int], int] | None = None,
        decisions: DecisionLog | None = None,
        observer: Observer | None = None,
        pod_max_in_unschedulable_seconds: float = 300.0,
        may_bind: Callable[[], bool] = lambda: True,
        on_decision: Callable[[Decision], None] | None = None,
        turn: float = TURN,
        pods: Informer[Any] | None = None,
        keep_events: bool = True,
    ) -> None:
        written = clock if wall_clock is None else wall_clock
        self.caught_up = False  # a leader that knows all pods
        self._extenders = LiveExtenders(config)
        self.core = Scheduler(
            config,
            clock=clock,
            pick=random.Random(seed).randrange if pick is None else pick,
            registry=registry,
            extenders=self._extenders.extenders,
            log=decisions,
            observer=observer,
            pod_max_in_unschedulable_pods_duration=pod_max_in_unschedulable_seconds,
            parallelize=Threads(config.config.parallelism),
        )
        self.recorder = EventRecorder(
            cluster if events is None else events,
            next(iter(self.core.profiles)),
            now=lambda: round(written() * 1_000_000_000),
            keep=keep_events,
        )
        self.driver = Driver(
            self.core,
            cluster,
            self.recorder,
            may_bind=may_bind,
            on_decision=on_decision,
            turn=turn,
            wall_clock=written,
        )
        self.informers = self._extenders.informers(cluster, self.driver, kinds_of_plugins(self.core), pods)

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What has to run all the time, whether pods are scheduled or not."""
        return {
            "informers": self.informers.run(),
            "events": self.recorder.run(),
            "statuses": self.driver.statuses.run(),
        }

    async def schedule(self) -> None:
        """Schedule until the driver is stopped, once the caches are synced."""
        await self.informers.synced.wait()
        await self.driver.run()

    async def lead(self) -> None:
        """Schedule as a new leader: what the one before has bound may not have been seen yet."""
        await self.informers.refresh_pods()
        self.caught_up = True
        await self.driver.run()

    def close(self) -> None:
        self._extenders.close()
