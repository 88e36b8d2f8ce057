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
    found = Now(
        nodes=total,
        feasible=int(np.count_nonzero(rehearsal.feasible)),
        refused=rehearsal.refusing.counted(),
    )
    if found.feasible:
        _rank(found, rehearsal.choice, scheduler.cluster.table.names)
        found.changes = ungated(pod.pod, found)
        return found, frozenset()
    diagnosis = rehearsal.choice.diagnosis
    found.message = diagnosis.message()
    found.preemption = preemption(rehearsal)
    found.claims = describe_claims(rehearsal)
    found.changes = changes(rehearsal)
    if found.preemption is not None and not found.preemption.helps:
        found.changes += higher_priority(rehearsal)
    found.changes.sort(key=lambda change: -change.nodes)
    if not found.changes:
        found.changes = pairs(rehearsal)
    if not found.changes:
        found.closest = rehearsal.refusing.closest()
    found.changes = ungated(pod.pod, found)
    return found, frozenset(diagnosis.unschedulable_plugins)


def _rank(found: Now, choice: Choice, names: list[str]) -> None:
    """The best nodes, with their scores."""
    if choice.best is None or choice.feasible is None:
        return
    found.best_nodes = len(choice.best)
    found.scored_by = choice.scored_by
    rows = np.flatnonzero(choice.feasible)
    order = rows[np.argsort(-choice.total[rows], kind="stable")][:MOST_RANKED]
    found.ranking = [Ranked(names[row], choice.total.item(row), choice.scores(row)) for row in order.tolist()]
