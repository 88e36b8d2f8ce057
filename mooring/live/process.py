"""The scheduler as a process: everything it is made of, started, watched over, and ended in order."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from functools import partial

import msgspec

from mooring import __version__
from mooring.cluster.api_server import ApiServer
from mooring.cluster.credentials import load_credentials
from mooring.cluster.events import EventRecorder
from mooring.cluster.informers import Informers
from mooring.cluster.leader_election import LeaderElector, LeadershipLostError, new_identity
from mooring.cluster.parallel import Threads
from mooring.config import LoadedConfig
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog, Recording
from mooring.framework.registry import Registry
from mooring.live.driver import GRACE, Driver
from mooring.metrics.scheduler_metrics import SchedulerMetrics

log = logging.getLogger("mooring")


class Settings(msgspec.Struct, kw_only=True):
    """What the command line says, beside the configuration file."""

    config: LoadedConfig
    registry: Registry
    kubeconfig: str = ""
    master: str = ""
    pod_max_in_unschedulable_seconds: float = 300.0
    decisions: Recording = Recording.SUMMARY
    decisions_sample: int = 100


async def run(settings: Settings) -> int:
    """Schedule until told to end; the exit code."""
    process = SchedulerProcess(settings)
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, process.end, sign.name)
    try:
        return await process.run()
    finally:
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(sign)


class SchedulerProcess:
    """One replica: watches from the start, schedules while it leads.

    Leases, events and everything else have clients of their own, so that none waits behind the others.
    """

    def __init__(self, settings: Settings) -> None:
        config = settings.config.config
        connection = config.client_connection
        credentials = load_credentials(connection.kubeconfig or settings.kubeconfig, settings.master)
        connect = partial(
            ApiServer,
            credentials,
            qps=connection.qps,
            burst=connection.burst,
            user_agent=f"mooring/{__version__}",
        )
        self._clients = [connect(), connect(), connect(connections=8)]
        writes, events, aside = self._clients
        self.decisions = (
            None
            if settings.decisions is Recording.OFF
            else DecisionLog(settings.decisions, sample=settings.decisions_sample)
        )
        self.metrics = SchedulerMetrics()
        self.scheduler = Scheduler(
            settings.config,
            clock=time.time,
            pick=random.Random().randrange,
            registry=settings.registry,
            log=self.decisions,
            observer=self.metrics,
            pod_max_in_unschedulable_pods_duration=settings.pod_max_in_unschedulable_seconds,
            parallelize=Threads(config.parallelism),
        )
        self.recorder = EventRecorder(events, list(self.scheduler.profiles))
        election = config.leader_election
        self.elector = (
            LeaderElector(aside, election, new_identity(), recorder=self.recorder)
            if election.leader_elect
            else None
        )
        self.driver = Driver(self.scheduler, writes, self.recorder, may_bind=self._may_bind)
        self.informers = Informers(writes, self.driver)
        self._ended = asyncio.Event()

    def _may_bind(self) -> bool:
        return self.elector is None or self.elector.leading

    def end(self, why: str) -> None:
        """Ask the process to end in order."""
        log.info("ending: %s", why)
        self._ended.set()

    async def run(self) -> int:
        parts = {
            asyncio.create_task(work, name=name)
            for name, work in (
                ("informers", self.informers.run()),
                ("events", self.recorder.run()),
                ("statuses", self.driver.statuses.run()),
            )
        }
        scheduling = asyncio.create_task(self._schedule(), name="scheduling")
        asked = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({scheduling, asked, *parts}, return_when=asyncio.FIRST_COMPLETED)
            return await self._finish(scheduling, parts)
        finally:
            tasks = {scheduling, asked, *parts}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for client in self._clients:
                await client.close()

    async def _schedule(self) -> None:
        await self.informers.synced.wait()
        log.info("caches are synced; profiles: %s", ", ".join(self.scheduler.profiles))
        if self.elector is None:
            await self.driver.run()
        else:
            await self.elector.run(self.driver.run)

    async def _finish(self, scheduling: asyncio.Task[None], parts: set[asyncio.Task[None]]) -> int:
        """Bring what was begun to its end; the exit code."""
        code = 0
        for part in parts:
            if part.done():  # none of them ever ends by itself: a bug
                log.critical("%s ended", part.get_name(), exc_info=part.exception())
                code = 1
        self.driver.stop()
        if not (self.informers.synced.is_set() and self._may_bind()):  # nothing was begun
            scheduling.cancel()
        try:
            await scheduling
        except asyncio.CancelledError:
            pass
        except LeadershipLostError as lost:
            log.error("%s", lost)
            code = 1
        await self.recorder.close(GRACE)
        return code
