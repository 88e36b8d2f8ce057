"""One replica of the scheduler, as `mooring scheduler` runs it, without HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

from mooring.client.leader_election import LeaderElector, LeadershipLostError
from mooring.client.port import Cluster
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.config.enabling import config_with
from mooring.config.load import from_object
from mooring.core.build import registry_with
from mooring.process.driver import TURN
from mooring.process.live_scheduler import LiveScheduler
from tests.faults.extender import AsideInline, UnreliableExtender
from tests.faults.processes import Process
from tests.faults.unreliable import Unreliable


class Replica:
    """Watches from the start, schedules while it leads, and ends when it no longer does."""

    def __init__(
        self,
        port: Cluster,
        identity: str,
        process: Process,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        seed: int,
        extenders: list[dict[str, Any]],
        features: Sequence[str] = (),
    ) -> None:
        self._process = process
        virtual = isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        self.live = LiveScheduler(
            port,
            from_object(
                {
                    **config_with([Unreliable]),
                    "extenders": extenders,
                    "featureGates": dict.fromkeys(features, True),
                }
            ),
            registry_with([type("UnreliableHere", (Unreliable,), {"process": process})]),
            clock=clock,
            wall_clock=wall_clock,
            seed=seed,
            may_bind=lambda: self.elector.leading,
            turn=math.inf if virtual else TURN,  # on virtual time, no real time decides
        )
        extender = UnreliableExtender(process)
        if extenders and virtual:
            self.live.driver._core = AsideInline(extender)
        for each in self.live.core.extenders:
            each._connections = extender  # type: ignore[attr-defined]
        self.elector = LeaderElector(
            port, identity, recorder=self.live.recorder, clock=clock, wall_clock=wall_clock
        )

    def start(self) -> asyncio.Task[None]:
        """Run in the process; the task ends when leadership is lost."""
        for name, work in self.live.tasks().items():
            self._process.start(name, work)
        return self._process.start("scheduling", self._schedule())

    async def _schedule(self) -> None:
        await self.live.informers.synced.wait()
        try:
            await self.elector.run(self.live.lead)
        except LeadershipLostError:
            return
