"""The engine against queueing theory: a cluster of k slots with Poisson arrivals is an M/M/k queue."""

from __future__ import annotations

import random
from math import factorial

import numpy as np

from mooring.core.scheduler import Scheduler
from mooring.simulate.arrivals import Arrivals, Numbered, Template
from mooring.simulate.engine import Clock, CoreRun
from mooring.simulate.invariants import check_run
from mooring.simulate.random_streams import stream
from mooring.simulate.traces.pods import make_node, make_pod


def erlang_c(servers: int, load: float) -> float:
    """The probability of having to wait; `load` is the utilization of each server."""
    offered = servers * load
    last = offered**servers / factorial(servers) / (1 - load)
    return last / (sum(offered**i / factorial(i) for i in range(servers)) + last)


def simulate_mmk(servers: int, load: float, arrivals: int, seed: int) -> tuple[float, float]:
    """The mean waiting time of a simulated run, and by theory; the mean run time is 1 second."""
    draw = stream(seed, "mmk")
    time = np.cumsum(draw.exponential(1 / (servers * load), arrivals))
    lives = draw.exponential(1.0, arrivals)
    templates = [Template(make_pod({"cpu": "1"}))]
    coming = Arrivals(templates, time, np.zeros(arrivals, np.int32), lives, Numbered("pod", range(arrivals)))
    clock = Clock()
    scheduler = Scheduler(clock=clock, pick=random.Random(seed).randrange)
    node = make_node("node", {"cpu": str(servers), "memory": "64Gi"}, pods=10 * servers)
    run = CoreRun(scheduler, clock, [node], coming)
    run.run()
    check_run(run)
    waited = float(np.mean(run.log.column("bound") - run.log.column("created")))
    return waited, erlang_c(servers, load) / (servers * (1 - load))
