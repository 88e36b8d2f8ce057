"""Small runs of the engine for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mooring.api.meta import KubeObject
from mooring.core.scheduler import Scheduler
from mooring.simulate.arrivals import Arrivals, Template
from mooring.simulate.engine import Clock, CoreRun, Listener
from mooring.simulate.invariants import check_now
from mooring.simulate.traces.pods import make_node, make_pod

EXAMPLES = Path(__file__).parents[2] / "examples"


class Checked:
    """Checks the invariants after every instant."""

    def settled(self, run: CoreRun) -> None:
        check_now(run)
        run.scheduler.queue.validate()


def arrivals_of(*pods: tuple[float, Template, float]) -> Arrivals:
    """(time, template, run time) of each pod."""
    templates = list({id(t): t for _, t, _ in pods}.values())
    return Arrivals(
        templates,
        np.array([time for time, _, _ in pods], np.float64),
        np.array([next(i for i, t in enumerate(templates) if t is mine) for _, mine, _ in pods], np.int32),
        np.array([life for _, _, life in pods], np.float64),
        [f"pod-{i}" for i in range(len(pods))],
    )


def template(cpu: str = "1", priority: int = 0, *, replaced: bool = False) -> Template:
    return Template(make_pod({"cpu": cpu}, priority=priority), replaced=replaced)


def nodes(count: int, cpu: str = "1") -> list[KubeObject]:
    return [make_node(f"node-{i}", {"cpu": cpu, "memory": "64Gi"}) for i in range(count)]


def run_core(
    objects: Sequence[KubeObject],
    arrivals: Arrivals,
    *,
    until: float = np.inf,
    retry: bool = True,
    cost: float = 0.0,
    listeners: Sequence[Listener] = (),
) -> CoreRun:
    clock = Clock()
    scheduler = Scheduler(clock=clock, pick=random.Random(0).randrange)
    run = CoreRun(
        scheduler, clock, objects, arrivals,
        until=until, retry=retry, attempt_cost=cost, listeners=[Checked(), *listeners],
    )  # fmt: skip
    run.run()
    return run
