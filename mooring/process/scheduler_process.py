"""The scheduler as a process: everything it is made of, started, watched over, and ended in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import msgspec

from mooring import __version__
from mooring.client.api_server import ApiServer
from mooring.client.clocks import steady_clock
from mooring.client.credentials import load_credentials
from mooring.client.leader_election import (
    LeaderElector,
    LeadershipLostError,
    new_identity,
)
from mooring.client.signals import end_by_signals
from mooring.client.tasks import Tasks
from mooring.config import KubeSchedulerConfiguration, LoadedConfig
from mooring.core.decision import Decision
from mooring.explain.log import DecisionLog, Recording
from mooring.metrics import SchedulerMetrics, make_registry
from mooring.process.driver import GRACE
from mooring.process.dump import dump
from mooring.process.live_scheduler import LiveScheduler
from mooring.process.process_metrics import ProcessMetrics
from mooring.process.routes import scheduler_routes
from mooring.runtime.registry import Registry
from mooring.serving.gate import Gate
from mooring.serving.health import Check
from mooring.serving.identity import ServingIdentity
from mooring.serving.listening import open_listener
from mooring.serving.messages import Handler
from mooring.serving.routing import Router
from mooring.serving.server import HttpServer
from mooring.serving.settings import EndpointSettings

log = logging.getLogger("mooring")

USER_AGENT = f"mooring/{__version__}"
REVIEWS_AT_ONCE = 4  # connections for asking who may ask


class Page(Protocol):
    """Something that is served next to the scheduler's endpoints, behind the same authentication."""

    def decided(self, decision: Decision) -> None: ...

    def routes(self, process: SchedulerProcess) -> Mapping[str, Handler]: ...


class Settings(msgspec.Struct, kw_only=True):
    """Settings from the command line, in addition to the configuration file."""

    config: LoadedConfig
    registry: Registry
    kubeconfig: str = ""
    master: str = ""
    pod_max_in_unschedulable_seconds: float = 300.0
    endpoints: EndpointSettings = EndpointSettings()
    decisions: Recording = Recording.SUMMARY
    decisions_sample: int = 100
    page: Page | None = None


async def run(settings: Settings) -> int:
    """Schedule until a signal arrives or leadership is lost, and return the exit code."""
    process = SchedulerProcess(settings)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR2, process.dump)
    try:
        with end_by_signals(process.end):
            return await process.run()
    finally:
        loop.remove_signal_handler(signal.SIGUSR2)


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
            user_agent=USER_AGENT,
        )
        self._clients = [connect(may_write=self.may_bind), connect(), connect(connections=8)]
        writes, events, aside = self._clients
        self.decisions = (
            None
            if settings.decisions is Recording.OFF
            else DecisionLog(settings.decisions, sample=settings.decisions_sample)
        )
        self.metrics = SchedulerMetrics()
        self.live = LiveScheduler(
            writes,
            settings.config,
            settings.registry,
            events=events,
            clock=steady_clock(),
            wall_clock=time.time,
            decisions=self.decisions,
            observer=self.metrics,
            pod_max_in_unschedulable_seconds=settings.pod_max_in_unschedulable_seconds,
            may_bind=self.may_bind,
            on_decision=None if settings.page is None else settings.page.decided,
        )
        self.scheduler, self.driver = self.live.core, self.live.driver
        self.informers, self.recorder = self.live.informers, self.live.recorder
        election = config.leader_election
        self.elector = (
            LeaderElector(
                aside,
                new_identity(),
                namespace=election.resource_namespace,
                name=election.resource_name,
                lease_duration=election.lease_duration.seconds,
                renew_deadline=election.renew_deadline.seconds,
                retry_period=election.retry_period.seconds,
                recorder=self.recorder,
            )
            if election.leader_elect
            else None
        )
        self._ended = asyncio.Event()
        self._identity: ServingIdentity | None = None
        self.endpoints: HttpServer | None = None
        if settings.endpoints.secure_port:
            self._make_endpoints(settings.endpoints, config, connect, settings.page)

    def _make_endpoints(
        self,
        settings: EndpointSettings,
        config: KubeSchedulerConfiguration,
        connect: Callable[..., ApiServer],
        page: Page | None,
    ) -> None:
        """Reviews have a client of their own: however often the endpoints are asked, the lease is safe."""
        own = connect(connections=REVIEWS_AT_ONCE)
        reviews = [own, own]
        for i, path in enumerate((settings.authentication_kubeconfig, settings.authorization_kubeconfig)):
            if path:
                reviews[i] = ApiServer(
                    load_credentials(path), user_agent=USER_AGENT, connections=REVIEWS_AT_ONCE
                )
        self._clients += {own, *reviews}
        election = [Check("leaderElection", self.elector.check)] if self.elector is not None else []
        registry = make_registry(self.metrics, self.scheduler)
        lease = config.leader_election.resource_name if self.elector is not None else None
        registry.register(ProcessMetrics(self.may_bind, lease))
        routes = scheduler_routes(
            self.scheduler,
            config,
            registry,
            self.decisions,
            leads=self.may_bind,
            ask=self.driver.ask,
            healthy=election,
            ready=[
                *election,
                Check("shutdown", lambda: "process is shutting down" if self._ended.is_set() else ""),
                Check("sched-handler-sync", self._not_synced),
            ],
        )
        if page is not None:
            routes |= page.routes(self)
        self._identity = ServingIdentity(settings, lookup=reviews[0])
        router = Router(Gate(settings, *reviews), routes)
        self.endpoints = HttpServer(router, open_listener(settings), self._identity)

    def _not_synced(self) -> str:
        missing = self.informers.not_synced()
        return f"handlers are not fully synchronized: {', '.join(missing)}" if missing else ""

    def may_bind(self) -> bool:
        """Return whether this replica schedules."""
        return self.elector is None or self.elector.leading

    def end(self, why: str) -> None:
        """Ask the process to end in order."""
        log.info("shutting down: %s", why)
        self._ended.set()

    def dump(self) -> None:
        """Dump the cache and the queue to the log."""
        self._dumping = asyncio.create_task(self._dump())

    async def _dump(self) -> None:
        for part in await self.driver.ask(lambda: list(dump(self.scheduler))):
            log.info("%s", part)

    async def run(self) -> int:
        try:
            if self._identity is not None:
                await self._identity.prepare()
            return await self._work()
        finally:
            if self.endpoints is not None:
                self.endpoints.close()
            for client in self._clients:
                await client.close()
            self.live.close()

    async def _work(self) -> int:
        tasks = Tasks()
        for name, work in self.live.tasks().items():
            tasks.start(name, work)
        if self.endpoints is not None:
            tasks.start("endpoints", self.endpoints.run())
        scheduling = asyncio.create_task(self._schedule(), name="scheduling")
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({scheduling, ended, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            return await self._finish(scheduling, failed=any(task.done() for task in tasks))
        finally:
            for task in (scheduling, ended):
                task.cancel()
            await asyncio.gather(scheduling, ended, return_exceptions=True)
            await tasks.stop()

    async def _schedule(self) -> None:
        await self.informers.synced.wait()
        log.info("caches are synced; profiles: %s", ", ".join(self.scheduler.profiles))
        if self.elector is None:
            await self.driver.run()
        else:
            await self.elector.run(self.live.lead)

    async def _finish(self, scheduling: asyncio.Task[None], *, failed: bool) -> int:
        """Complete the bindings that have begun; return the exit code."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + GRACE
        code = 1 if failed else 0
        self.driver.stop()
        begun = self.informers.synced.is_set() if self.elector is None else self.live.caught_up
        if not (begun and self.may_bind()):
            scheduling.cancel()
        try:
            await scheduling
        except asyncio.CancelledError:
            pass
        except LeadershipLostError as lost:
            log.error("%s", lost)
            code = 1
        await self.recorder.close(max(1.0, 0.0 if code else deadline - clock()))
        return code
