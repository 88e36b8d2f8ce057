"""A cluster in memory whose scheduler keeps a log of its decisions."""

from __future__ import annotations

import random

from mooring.api.meta import KubeObject
from mooring.config import from_object
from mooring.core.decision import Recorder
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.framework.plugin import Plugin
from mooring.testing import VirtualClock, config_with


class Setting:
    """A scheduler at work, on a virtual clock."""

    def __init__(self, log: Recorder | None, *plugins: type[Plugin], record: bool = False) -> None:
        self.clock = VirtualClock()
        self.scheduler = Scheduler(
            from_object(config_with(plugins)),
            clock=self.clock,
            pick=random.Random(0).randrange,
            plugins=plugins,
            log=log,
            record=record,
        )
        self.cluster = MemoryCluster(self.scheduler)

    def apply(self, *objects: KubeObject) -> None:
        for obj in objects:
            self.cluster.apply(obj)
        self.cluster.run()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.scheduler.tick()
        self.cluster.run()
