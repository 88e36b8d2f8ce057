"""Comparing two runs over the same arrivals: pod by pod, and the first decision that differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from mooring.core.decision import Decision
from mooring.explain.text import story
from mooring.simulate.engine import CoreRun
from mooring.simulate.plan import Plan
from mooring.simulate.policies import Policy
from mooring.simulate.running import prepare_core_run
from mooring.simulate.tables import IntArray, Tables

RECORDING = "recording"  # the name of what a run is compared with, in place of a policy


class Divergence(msgspec.Struct):
    """The first pod that fared differently."""

    pod: str
    row: int
    first_node: str  # "" where it was not bound
    second_node: str
    first_bound: float
    second_bound: float
    created: float

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
    later_created = second.pods.created[b] - first.pods.created[a]
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
        wait_difference=float((difference - later_created[both]).mean()) if len(difference) else 0.0,
        divergence=_divergence(first, second, rows, names_a, names_b),
    )


def recorded_tables(tables: Tables) -> Tables:
    """The recording that a run replays, as the tables of a run. Raises ValueError."""
    pods = tables.pods
    if not pods.recorded_node:
        raise ValueError("the run replays no recording: give a second run to compare with")
    rows = {name: row for row, name in enumerate(tables.nodes.name)}
    node = np.array([rows.get(name, -1) for name in pods.recorded_node])
    node = np.where(pods.attempts > 0, node, pods.node)  # pods that were there kept their nodes
    # A decision takes no time in a simulation, but some in a cluster: only whether a pod was bound counts.
    bound = np.where(node < 0, np.nan, np.where(np.isnan(pods.bound), pods.recorded_bound, pods.bound))
    recorded = msgspec.structs.replace(pods, node=node, bound=bound)
    return msgspec.structs.replace(tables, policy=RECORDING, pods=recorded)


def _pairs(first: Tables, second: Tables) -> Any:
    """The rows of pods that arrive in both; replacements of evicted pods have no partner. Pods that Jobs
    create at other times are those of the same name."""
    a, b = (np.flatnonzero(tables.pods.replaces < 0) for tables in (first, second))
    pairs: list[tuple[int, int]] = []
    if not _arrive_together(first, a, second, b):
        of_jobs_a, of_jobs_b = _of_jobs(first, a), _of_jobs(second, b)
        pairs = [(row, of_jobs_b[key]) for key, row in of_jobs_a.items() if key in of_jobs_b]
        a, b = np.setdiff1d(a, [*of_jobs_a.values()]), np.setdiff1d(b, [*of_jobs_b.values()])
    if not _arrive_together(first, a, second, b):
        raise ValueError("the runs have different arrivals: compare runs of one scenario and seed")
    return np.array([*zip(a.tolist(), b.tolist(), strict=True), *pairs], np.int64).reshape(-1, 2)


def _arrive_together(first: Tables, a: IntArray, second: Tables, b: IntArray) -> bool:
    return len(a) == len(b) and np.array_equal(first.pods.created[a], second.pods.created[b])


def _of_jobs(tables: Tables, rows: IntArray) -> dict[str, int]:
    """The rows of the pods of Jobs, by what names them."""
    shapes = [tables.shapes[shape] for shape in tables.pods.shape[rows].tolist()]
    return {
        f"{shape.namespace}/{tables.pods.name[row]}": row
        for row, shape in zip(rows.tolist(), shapes, strict=True)
        if shape.owner.startswith(("Job/", "CronJob/"))
    }


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
        float(first.pods.created[i]),
    )


def explain_divergence(
    plan: Plan, policies: Sequence[Policy | None], seed: int, divergence: Divergence
) -> list[str]:
    """Explain the decisions about the pod that differs; the runs are repeated up to that time.

    A policy of None is the recording: how the other policy sees the recorded node is explained.
    """
    nodes = (divergence.first_node, divergence.second_node)
    lines: list[str] = []
    for policy, other_node in zip(policies, reversed(nodes), strict=True):
        if policy is None:
            continue
        decision = _decide(plan, policy, seed, divergence)
        lines.append(f"policy {policy.name}:")
        if decision is None:
            lines.append("  no attempt at this pod")
            continue
        lines += [f"  {line}" for line in story(decision)]
        if None in policies:
            lines.append(f"  recorded node {other_node or '-'}: {_standing(decision, other_node)}")
    return lines


def _standing(decision: Decision, node: str) -> str:
    """What a decision has to say about a node that it did not choose."""
    if not node:
        return "none; the recording does not show the pod on a node"
    rejection = decision.refusals.get(node)
    if rejection is not None:
        return f"rejected by {rejection.plugin}: {', '.join(rejection.reasons)}"
    if node not in decision.feasible:
        return "not considered" if decision.pre_filter_nodes is not None else "not there at this time"
    if not decision.total or decision.node not in decision.feasible:
        return "feasible"
    row, chosen = decision.feasible.index(node), decision.feasible.index(decision.node)
    behind = decision.total[chosen] - decision.total[row]
    if not behind:
        return "as good as the chosen one; set `ties: recorded` to choose it"
    causes = [
        f"{name} {score.weighted[row] - score.weighted[chosen]:+d}"
        for name, score in decision.scores.items()
        if score.weighted[row] != score.weighted[chosen]
    ]
    return f"score {decision.total[row]}, {behind} less than the chosen one ({', '.join(causes)})"


def _decide(plan: Plan, policy: Policy, seed: int, divergence: Divergence) -> Decision | None:
    """The last attempt at the pod up to when the runs part."""
    kept = _Keep(divergence.pod)
    run = prepare_core_run(plan, policy, seed, kept)
    run.until = divergence.time
    kept.run, kept.after = run, divergence.created
    run.run()
    return kept.decision


class _Keep:
    """Keeps the decisions about one pod, in full from its creation on."""

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
