"""Comparing two runs over the same arrivals: pod by pod, and the first decision that differs."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from mooring.core.decision import Decision
from mooring.explain.text import story
from mooring.simulate.engine import Clock, CoreRun
from mooring.simulate.plan import Plan
from mooring.simulate.policies import Policy
from mooring.simulate.scenario_events import plan_events
from mooring.simulate.tables import Tables


class Divergence(msgspec.Struct):
    """The first pod, in order of creation, that fared differently."""

    pod: str
    row: int
    first_node: str  # "" where it was not bound
    second_node: str
    first_bound: float
    second_bound: float

    @property
    def time(self) -> float:
        """When the runs parted: nothing differs before."""
        return float(np.nanmin([self.first_bound, self.second_bound]))


class Comparison(msgspec.Struct, eq=False):
    """Two runs, paired by pod."""

    pods: int
    sooner: int  # bound sooner in the second
    later: int
    same_time: int
    other_node: int
    only_first: int  # bound only there
    only_second: int
    wait_difference: float  # mean, second minus first, of pods bound in both
    divergence: Divergence | None


def compare_tables(first: Tables, second: Tables) -> Comparison:
    """Raises ValueError where the arrivals are not the same."""
    rows = _pairs(first, second)
    a, b = rows[:, 0], rows[:, 1]
    bound_a, bound_b = first.pods.bound[a], second.pods.bound[b]
    both = ~np.isnan(bound_a) & ~np.isnan(bound_b)
    difference = bound_b[both] - bound_a[both]
    names_a = np.array([*first.nodes.name, ""], dtype=object)[first.pods.node[a]]
    names_b = np.array([*second.nodes.name, ""], dtype=object)[second.pods.node[b]]
    return Comparison(
        pods=len(rows),
        sooner=int((difference < 0).sum()),
        later=int((difference > 0).sum()),
        same_time=int((difference == 0).sum()),
        other_node=int((names_a[both] != names_b[both]).sum()),
        only_first=int((~np.isnan(bound_a) & np.isnan(bound_b)).sum()),
        only_second=int((np.isnan(bound_a) & ~np.isnan(bound_b)).sum()),
        wait_difference=float(difference.mean()) if len(difference) else 0.0,
        divergence=_divergence(first, second, rows, names_a, names_b),
    )


def _pairs(first: Tables, second: Tables) -> Any:
    """The rows of pods that arrive in both; replacements of evicted pods have no partner."""
    a, b = (np.flatnonzero(tables.pods.replaces < 0) for tables in (first, second))
    if len(a) != len(b) or not np.array_equal(first.pods.created[a], second.pods.created[b]):
        raise ValueError("the runs have different arrivals: compare runs of one scenario and seed")
    return np.stack([a, b], axis=1)


def _divergence(first: Tables, second: Tables, rows: Any, names_a: Any, names_b: Any) -> Divergence | None:
    """Of the pods that differ, the one that was bound first in either run."""
    bound_a, bound_b = first.pods.bound[rows[:, 0]], second.pods.bound[rows[:, 1]]
    same_time = (bound_a == bound_b) | (np.isnan(bound_a) & np.isnan(bound_b))
    differs = np.flatnonzero((names_a != names_b) | ~same_time)
    if not len(differs):
        return None
    when = np.fmin(bound_a[differs], bound_b[differs])
    row = int(differs[np.lexsort((differs, when))[0]])
    i = int(rows[row, 0])
    shape = first.shapes[int(first.pods.shape[i])]
    return Divergence(
        f"{shape.namespace}/{first.pods.name[i]}",
        row,
        str(names_a[row]),
        str(names_b[row]),
        float(bound_a[row]),
        float(bound_b[row]),
    )


def explain_divergence(
    plan: Plan, policies: tuple[Policy, Policy], seed: int, divergence: Divergence
) -> list[str]:
    """Explain both decisions about the pod that differs; the runs are repeated up to that time."""
    lines: list[str] = []
    for policy in policies:
        decision = _decide(plan, policy, seed, divergence)
        lines.append(f"policy {policy.name}:")
        text = ["  no attempt at this pod"] if decision is None else [f"  {line}" for line in story(decision)]
        lines += text
    return lines


def _decide(plan: Plan, policy: Policy, seed: int, divergence: Divergence) -> Decision | None:
    """The last attempt at the pod up to when the runs part."""
    kept = _Keep(divergence.pod)
    clock = Clock()
    scheduler = policy.scheduler(clock, seed, kept)
    objects, arrivals = plan.inputs(seed)
    run = CoreRun(
        scheduler, clock, objects, arrivals,
        until=divergence.time, retry=plan.retry, attempt_cost=plan.attempt_cost,
    )  # fmt: skip
    kept.run, kept.after = run, divergence.time
    plan_events(run, list(plan.events), seed)
    run.run()
    return kept.decision


class _Keep:
    """Keeps the decisions about one pod, in full near the time of interest."""

    def __init__(self, pod: str) -> None:
        self._pod = pod
        self.run: CoreRun | None = None
        self.after = 0.0
        self.decision: Decision | None = None

    def wants_all(self) -> bool:
        return self.run is not None and self.run.clock.now >= self.after

    def add(self, pod: Any, decision: Decision, now: float) -> None:
        if decision.pod == self._pod:
            self.decision = decision
