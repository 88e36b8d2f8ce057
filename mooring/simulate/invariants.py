"""What must hold in every run, whatever the policy: conservation, and Little's law."""

from __future__ import annotations

import numpy as np

from mooring.simulate.cluster_depth import ClusterRun
from mooring.simulate.engine import CoreRun
from mooring.simulate.pod_log import Outcome

TOLERANCE = 1e-6


class InvariantError(AssertionError):
    """The simulator contradicts itself: a bug of the simulator, or a plugin that overcommits nodes."""


def check_run(run: CoreRun | ClusterRun) -> None:
    """Check a run that is over. Raises InvariantError."""
    check_now(run)
    log = run.log
    created, bound, ended = (log.column(name) for name in ("created", "bound", "ended"))
    end = run.end
    left = np.where(np.isnan(ended), end, ended)
    waiting = np.where(np.isnan(bound), left, bound) - created
    running = left[~np.isnan(bound)] - bound[~np.isnan(bound)]
    # Little: the mean number of pods, times the time, is the sum of the times of all pods.
    for what, counted, summed in (
        ("pending", run.pending_seconds, float(waiting.sum())),
        ("running", run.running_seconds, float(running.sum())),
    ):
        if abs(counted - summed) > TOLERANCE * max(1.0, counted, summed):
            raise InvariantError(f"Little's law: {what} pods took {summed} s, but {counted} were counted")


def check_now(run: CoreRun | ClusterRun) -> None:
    """Every pod is in one state, and no node has more than it can hold. Raises InvariantError."""
    outcomes = run.log.integers("outcome")
    for what, count, outcome in (
        ("pending", run.pending, Outcome.PENDING),
        ("running", run.running, Outcome.RUNNING),
    ):
        rows = int((outcomes == outcome).sum())
        if rows != count:
            raise InvariantError(f"{rows} pods are {what}, but {count} were counted")
    nodes = run.scheduler.cluster.nodes
    for resource in nodes.resources:
        free = nodes.free[resource]
        if len(free) and int(free.min()) < 0 and not run.overcommitted:
            name = nodes.names[int(free.argmin())]
            raise InvariantError(f"node {name}: {-int(free.min())} too much {resource} requested")
