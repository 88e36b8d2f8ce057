"""What an attempt at a pod would come to at this moment, and what would change that."""

from __future__ import annotations

import numpy as np

from mooring.core.algorithm import NO_NODES, Choice
from mooring.core.decision import Ranked
from mooring.core.scheduler import Scheduler
from mooring.explain.changes import changes, pairs, ungated
from mooring.explain.devices import describe_claims
from mooring.explain.explanation import Now
from mooring.explain.preemption import higher_priority, preemption
from mooring.explain.rehearsal import Rehearsal
from mooring.framework.pod import PodInfo
from mooring.runtime.runners import PluginError

MOST_RANKED = 5


def now(scheduler: Scheduler, pod: PodInfo) -> tuple[Now, frozenset[str]]:
    """An attempt rehearsed, and the plugins that would refuse the pod."""
    total = len(scheduler.cluster.table)
    if not total:
        return Now(nodes=0, message=NO_NODES), frozenset()
    try:
        rehearsal = Rehearsal(scheduler, pod)
    except PluginError as exc:
        return Now(nodes=total, error=str(exc)), frozenset()
    result = Now(
        nodes=total,
        feasible=int(np.count_nonzero(rehearsal.feasible)),
        refused=rehearsal.refusing.counted(),
    )
    if result.feasible:
        _rank(result, rehearsal.choice, scheduler.cluster.table.names)
        result.changes = ungated(pod.pod, result)
        return result, frozenset()
    diagnosis = rehearsal.choice.diagnosis
    result.message = diagnosis.message()
    result.preemption = preemption(rehearsal)
    result.claims = describe_claims(rehearsal)
    result.changes = changes(rehearsal)
    if result.preemption is not None and not result.preemption.helps:
        result.changes += higher_priority(rehearsal)
    result.changes.sort(key=lambda change: -change.nodes)
    if not result.changes:
        result.changes = pairs(rehearsal)
    if not result.changes:
        result.closest = rehearsal.refusing.closest()
    result.changes = ungated(pod.pod, result)
    return result, frozenset(diagnosis.unschedulable_plugins)


def _rank(now: Now, choice: Choice, names: list[str]) -> None:
    """The best nodes, with their scores."""
    if choice.best is None or choice.feasible is None:
        return
    now.best_nodes = len(choice.best)
    now.scored_by = choice.scored_by
    rows = np.flatnonzero(choice.feasible)
    order = rows[np.argsort(-choice.total[rows], kind="stable")][:MOST_RANKED]
    now.ranking = [Ranked(names[row], choice.total.item(row), choice.scores(row)) for row in order.tolist()]
