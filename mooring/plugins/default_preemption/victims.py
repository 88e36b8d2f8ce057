"""Finding victims: which lower-priority pods would have to go, on which node, for a pod to fit.

All candidate nodes are tried together on one hypothetical view: every potential victim is removed, then the
victims are added back one by one, most important first, where the pod still fits (the reprieve).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mooring.api.workloads import PodDisruptionBudget
from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import BoolArray
from mooring.framework.pod import PodInfo
from mooring.framework.status import Code, Status, error, unresolvable
from mooring.plugins.default_preemption.budgets import Budgets, split_by_budgets
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import HypotheticalNodes

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


Badness = tuple[int, int, int, int, float]


@dataclass(slots=True)
class Candidate:
    """A node where preemption would help, and the pods that would have to go, most important first."""

    node_name: str
    victims: tuple[PodInfo, ...]
    pdb_violations: int
    badness: Badness  # what a better candidate has less of, in order of weight


def badness_of(victims: Sequence[PodInfo], pdb_violations: int) -> Badness:
    top = victims[0].priority
    earliest = min(pod.start_time for pod in victims if pod.priority == top)
    total = sum(pod.priority + (1 << 31) for pod in victims)
    return pdb_violations, top, total, len(victims), -earliest


@dataclass(slots=True)
class DryRun:
    """What trying the nodes gave: candidates, and why the others do not help."""

    candidates: dict[int, Candidate] = field(default_factory=dict)  # by row of the node table
    refusals: dict[int, Status] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)  # rows for which a filter failed
    conclusion: Any = None  # what followed from all of these, until one is forgotten

    def forget(self, row: int) -> None:
        self.conclusion = None
        self.candidates.pop(row, None)
        self.refusals.pop(row, None)

    def forget_failures(self) -> None:
        """Let the next pod of this shape ask filters that failed again."""
        while self.failed:
            self.forget(self.failed.pop())


def importance(pod: PodInfo) -> tuple[int, float]:
    """Sort key: higher priority first, then longer running."""
    return -pod.priority, pod.start_time


def try_rows(
    handle: EngineHandle, state: CycleState, pod: PodInfo, rows: Sequence[int], into: DryRun
) -> None:
    """Look for victims on each of these rows of the node table."""
    nodes = handle.snapshot.nodes
    budgets = Budgets(handle.listers.list(PodDisruptionBudget))
    trial: list[tuple[int, list[PodInfo], int]] = []  # row, victims in the order of reprieve, violating ones
    for row in rows:
        lower = [p for p in nodes[row].pods if p.priority < pod.priority]
        if not lower:
            into.refusals[row] = NO_VICTIMS
            continue
        lower.sort(key=importance)
        violating, others = split_by_budgets(lower, budgets) if budgets else ([], lower)
        trial.append((row, violating + others, len(violating)))
    if trial:
        _reprieve(handle, state, pod, trial, into)


def _reprieve(
    handle: EngineHandle,
    state: CycleState,
    pod: PodInfo,
    trial: Sequence[tuple[int, list[PodInfo], int]],
    into: DryRun,
) -> None:
    nodes = handle.snapshot.nodes
    names = nodes.names
    nominated = [
        [p for p in handle.nominated_pods(names[row]) if p.priority >= pod.priority and p.uid != pod.uid]
        for row, _, _ in trial
    ]
    view = nodes.what_if(
        np.array([row for row, _, _ in trial], np.intp), [victims for _, victims, _ in trial], nominated
    )
    counts = np.array([len(victims) for _, victims, _ in trial])
    removable: BoolArray = np.arange(view.present.shape[1]) < counts[:, None]
    view.set_all_present(removable, False)
    promised = ~removable if any(nominated) else None
    fits, statuses = _fits(handle, state, pod, view, promised)
    kept = np.zeros(view.present.shape, np.bool_)
    for j in range(int(counts.max())):
        tried = fits & removable[:, j]
        if not tried.any():
            continue
        view.set_present(j, tried, True)
        still, _ = _fits(handle, state, pod, view, promised, about_pods=True)
        view.set_present(j, tried & ~still, False)
        kept[:, j] = tried & still
    for k, (row, victims, violating) in enumerate(trial):
        if not fits[k]:
            into.refusals[row] = statuses[k]
            if statuses[k].code is Code.ERROR:
                into.failed.append(row)
            continue
        gone = [j for j in range(len(victims)) if not kept[k, j]]
        if not gone:
            into.refusals[row] = error(f'expected at least one victim pod on node "{names[row]}"')
            continue
        chosen = sorted((victims[j] for j in gone), key=importance)
        violations = sum(j < violating for j in gone)
        badness = badness_of(chosen, violations)
        into.candidates[row] = Candidate(names[row], tuple(chosen), violations, badness)


def _fits(
    handle: EngineHandle,
    state: CycleState,
    pod: PodInfo,
    view: HypotheticalNodes,
    promised: BoolArray | None,
    about_pods: bool = False,
) -> tuple[BoolArray, dict[int, Status]]:
    """Whether the pod passes on each row, with the pods nominated there (`promised`) and without them."""
    statuses: dict[int, Status] = {}
    passed = np.ones(len(view), np.bool_)
    for present in (False,) if promised is None else (True, False):
        if promised is not None:
            view.set_all_present(promised, present)
        answer = handle.run_filters(state, pod, view, about_pods=about_pods)
        if not about_pods:
            for i in np.flatnonzero(passed & ~answer.passed).tolist():
                status = answer.status(i)
                assert status is not None
                statuses[i] = status
        passed &= answer.passed
    return passed, statuses
