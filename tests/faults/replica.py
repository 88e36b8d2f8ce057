"""One replica of the scheduler, as `mooring scheduler` runs it, without HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from mooring.client.leader_election import LeaderElector, LeadershipLostError
from mooring.client.port import Cluster
from mooring.config.enabling import config_with
from mooring.config.load import from_object
from mooring.core.build import registry_with
from mooring.process.live_scheduler import LiveScheduler
from tests.faults.processes import Process
from tests.faults.unreliable import Unreliable


class Replica:
    """Watches from the start, schedules while it leads, and ends when it no longer does."""

    def __init__(self, port: Cluster, identity: str, clock: Callable[[], float], seed: int) -> None:
        self.live = LiveScheduler(
            port,
            from_object(config_with([Unreliable])),
            registry_with([Unreliable]),
            clock=clock,
            seed=seed,
            may_bind=lambda: self.elector.leading,
            turn=math.inf,  # no real time decides
        )
        self.elector = LeaderElector(
            port, identity, recorder=self.live.recorder, clock=clock, wall_clock=clock
        )

    def start(self, process: Process) -> asyncio.Task[None]:
        """Run in a process; the task ends when leadership is lost."""
        for name, work in self.live.tasks().items():
            process.start(name, work)
        return process.start("scheduling", self._schedule())

    async def _schedule(self) -> None:
        await self.live.informers.synced.wait()
        try:
            await self.elector.run(self.live.lead)
        except LeadershipLostError:
            return
