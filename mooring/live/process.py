"""The scheduler as a process: everything it is made of, started, watched over, and ended in order."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import Coroutine
from typing import Any

import msgspec

from mooring import __version__
from mooring.cluster.api_server import ApiServer
from mooring.cluster.credentials import load_credentials
from mooring.cluster.events import EventRecorder
from mooring.cluster.informers import Informers
from mooring.cluster.parallel import Threads
from mooring.config import LoadedConfig
from mooring.core.scheduler import Scheduler
from mooring.framework.registry import Registry
from mooring.live.driver import Driver

log = logging.getLogger("mooring")

GRACE = 15.0  # seconds for bindings and events on their way when the process ends


class Settings(msgspec.Struct, kw_only=True):
    """What the command line says, beside the configuration file."""

    config: LoadedConfig
    registry: Registry
    kubeconfig: str = ""
    master: str = ""
    pod_max_in_unschedulable_seconds: float = 300.0


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
    """One replica: watches from the start, schedules while it leads."""

    def __init__(self, settings: Settings) -> None:
        config = settings.config.config
        connection = config.client_connection
        credentials = load_credentials(connection.kubeconfig or settings.kubeconfig, settings.master)
        self.config = config
        self.api = ApiServer(
            credentials,
            qps=connection.qps,
            burst=connection.burst,
            user_agent=f"mooring/{__version__}",
        )
        self.scheduler = Scheduler(
            settings.config,
            clock=time.time,
            pick=random.Random().randrange,
            registry=settings.registry,
            parallelize=Threads(config.parallelism),
        )
        self.recorder = EventRecorder(self.api, list(self.scheduler.profiles))
        self.driver = Driver(self.scheduler, self.api, self.recorder)
        self.informers = Informers(self.api, self.driver)
        self._ended = asyncio.Event()
        self._code = 0
        self._leads = asyncio.Event()

    # ---- the end

    def end(self, why: str) -> None:
        """Ask the process to end in order."""
        log.info("ending: %s", why)
        self._ended.set()

    def _lost(self) -> None:
        """Leadership is gone: another may schedule from now on, so nothing more may be bound."""
        log.error("leader election lost")
        self.driver.halt("leader election lost")
        self._code = 1
        self._ended.set()

    # ---- the life

    async def run(self) -> int:
        tasks = [
            self._watched(self.informers.run(), "informers"),
            self._watched(self.recorder.run(), "events"),
            self._watched(self.driver.statuses.run(), "statuses"),
            self._watched(self._schedule(), "scheduling"),
        ]
        await self._ended.wait()
        await self._finish()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.api.close()
        return self._code

    def _watched(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A part that never ends by itself; where it does, that is a bug, and the process ends."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._part_ended)
        return task

    def _part_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and not self._ended.is_set():
            log.critical("%s ended unexpectedly", task.get_name(), exc_info=task.exception())
            self._code = 1
            self._ended.set()

    async def _schedule(self) -> None:
        await self.informers.synced.wait()
        log.info("caches are synced, scheduling for %s", ", ".join(self.scheduler.profiles))
        await self.driver.run()
        await self._ended.wait()

    async def _finish(self) -> None:
        """What was begun is brought to its end, within bounds."""
        await self.driver.stop(GRACE)
        await self.recorder.close(GRACE)
