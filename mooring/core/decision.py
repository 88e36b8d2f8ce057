"""The decision record: one attempt at one pod. Everything that explains reads this.

A summary costs a few microseconds, so that every attempt can leave one: which plugin rejected how many nodes,
the chosen node and the second best with their scores. The full record has every node and every score.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np

from mooring.core.algorithm import Choice
from mooring.core.diagnosis import Diagnosis
from mooring.framework.plugin import PostFilterResult
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status
from mooring.runtime.totals import BestRows


class Refusal(msgspec.Struct, frozen=True):
    """Why a node, or the pod as a whole, was refused, and by which plugin."""

    status: str
    plugin: str
    reasons: list[str]


class RefusedNodes(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refusal and the number of nodes on which it stands; without reasons: all others together."""

    plugin: str
    reasons: list[str]
    nodes: int
    examples: list[str] = []


class Ranked(msgspec.Struct, frozen=True):
    """One of the best nodes: its total, and what each plugin of `scored_by` gave it, weighted."""

    node: str
    total: int
    scores: list[int]


class PluginScore(msgspec.Struct, rename="camel"):
    """One plugin's scores of the feasible nodes, in their order."""

    weight: int
    raw: list[int]
    normalized: list[int]
    weighted: list[int]


class Victims(msgspec.Struct, rename="camel"):
    victims: list[str]
    pdb_violations: int


class PostFilterRecord(msgspec.Struct, rename="camel", omit_defaults=True):
    """What was tried after no node fitted."""

    status: str
    message: str = ""
    nominated_node: str | None = None
    victims: list[str] = []
    candidates: dict[str, Victims] = {}
    best: list[str] = []


class Decision(msgspec.Struct, rename="camel", omit_defaults=True):
    """Outcome and summary of an attempt, followed by the fields of the full record."""

    pod: str
    profile: str
    result: str  # scheduled, unschedulable or error
    node: str = ""
    tried_node: str = ""  # the node that was chosen, where reserve, permit or the binding then failed
    reason: str = ""  # of the PodScheduled condition
    message: str = ""
    attempts: int = 0
    nodes: int = 0
    unschedulable_plugins: list[str] = []
    pending_plugins: list[str] = []
    nominated: bool = False  # the node was promised to the pod earlier, so none was to be chosen
    feasible_nodes: int = 0
    best_nodes: int = 0  # how many share the highest total
    scored_by: list[str] = []
    ranking: list[Ranked] = []  # the chosen node and the best other one; empty where no scores were needed
    refused: list[RefusedNodes] = []
    full: bool = False  # whether what follows is told
    pre_filter: Refusal | None = None
    pre_filter_nodes: list[str] | None = None  # the only nodes considered; absent: all
    skipped_filters: list[str] = []
    refusals: dict[str, Refusal] = {}
    feasible: list[str] = []
    skipped_scores: list[str] = []
    scores: dict[str, PluginScore] = {}
    total: list[int] = []
    best: list[str] = []
    post_filter: PostFilterRecord | None = None

    @property
    def margin(self) -> int | None:
        """How far the chosen node's total is ahead of the best other one's; None without a contest."""
        return self.ranking[0].total - self.ranking[1].total if len(self.ranking) > 1 else None


class Recorder(Protocol):
    """Keeps decisions as they are made."""

    def wants_all(self) -> bool:
        """Return whether the attempt that starts now is recorded in full."""
        ...

    def add(self, pod: PodInfo, decision: Decision, now: float) -> None: ...


LOWEST = np.iinfo(np.int64).min
MOST_REFUSALS = 16  # told apart in a summary, so that a plugin with a reason for every node stays harmless


def summarize(decision: Decision, choice: Choice, names: list[str]) -> None:
    """Fill in the summary of what the filters and scores said."""
    if choice.candidates is not None:
        decision.feasible_nodes = len(choice.candidates)
    elif choice.feasible is not None:
        decision.feasible_nodes = int(np.count_nonzero(choice.feasible))
    decision.nominated = choice.row is not None and choice.candidates is None
    if choice.row is None:
        decision.refused = count_refusals(choice.diagnosis)
    elif choice.scoring is not None and choice.best is not None:
        _rank(decision, choice, choice.row, choice.best, names)


def _rank(decision: Decision, choice: Choice, row: int, best: BestRows, names: list[str]) -> None:
    """Put down the chosen node and who comes next."""
    totals, feasible = choice.total, choice.feasible
    assert feasible is not None
    mine: int = totals.item(row)
    decision.best_nodes = len(best)
    if len(best) > 1:
        other = int(best[1 if best[0] == row else 0])
    else:
        totals[row] = LOWEST  # for a moment, to find who comes next
        other = int(totals.argmax())
        totals[row] = mine
    theirs: int = totals.item(other)
    decision.scored_by = choice.scored_by
    decision.ranking = [Ranked(names[row], mine, choice.scores(row))]
    if other != row and feasible.item(other):
        decision.ranking.append(Ranked(names[other], theirs, choice.scores(other)))


def count_refusals(diagnosis: Diagnosis) -> list[RefusedNodes]:
    """Each refusal with its number of nodes, most frequent first."""
    counts: dict[tuple[str, tuple[str, ...]], int] = {}
    for status, nodes in diagnosis.refusals():
        key = (status.plugin, status.reasons)
        counts[key] = counts.get(key, 0) + nodes
    outside = diagnosis.absent
    rest = 0 if outside is None else diagnosis.total - sum(counts.values())
    if outside is not None and rest:
        counts[outside.plugin, outside.reasons] = rest
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = [RefusedNodes(plugin, list(reasons), n) for (plugin, reasons), n in ordered[:MOST_REFUSALS]]
    others = sum(n for _, n in ordered[MOST_REFUSALS:])
    return [*listed, RefusedNodes("", [], others)] if others else listed


def refusal(status: Status) -> Refusal:
    return Refusal(status.code.text, status.plugin, list(status.reasons))


def record_choice(decision: Decision, choice: Choice, names: list[str]) -> None:
    """Fill in what the filters and scores said. Copies, since the columns go on changing."""
    diagnosis = choice.diagnosis
    decision.full = True
    decision.skipped_filters = sorted(choice.state.skip_filter)
    decision.skipped_scores = sorted(choice.state.skip_score)
    if diagnosis.node_names is not None:
        decision.pre_filter_nodes = sorted(diagnosis.node_names)
    if diagnosis.pre_filter is not None:
        decision.pre_filter = refusal(diagnosis.pre_filter)
        return
    if choice.feasible is None:
        return
    for row, name in enumerate(names):
        evaluated = diagnosis.allowed is None or diagnosis.allowed[row]
        status = diagnosis.status(row) if evaluated else None
        if status is not None:
            decision.refusals[name] = refusal(status)
    rows = sorted(np.flatnonzero(choice.feasible).tolist(), key=names.__getitem__)
    decision.feasible = [names[row] for row in rows]
    if choice.scoring is not None and choice.best is not None:
        _record_scores(decision, choice, rows)
        decision.best = sorted(names[row] for row in choice.best)
    elif choice.row is not None:
        decision.best = [names[choice.row]]


def _record_scores(decision: Decision, choice: Choice, rows: list[int]) -> None:
    scoring = choice.scoring
    assert scoring is not None
    decision.total = choice.total[rows].tolist()
    for column in scoring.columns:
        weight = column.runner.weight
        weighted = column.on(rows)
        decision.scores[column.runner.name] = PluginScore(
            weight, column.raw_scores(rows).tolist(), (weighted // weight).tolist(), weighted.tolist()
        )
    for each in choice.extended:
        raw, weighted = each.raw[rows].tolist(), each.weighted[rows].tolist()
        decision.scores[each.name] = PluginScore(each.weight, raw, raw, weighted)


def record_post_filter(result: PostFilterResult, in_full: bool) -> PostFilterRecord:
    status = result.status
    record = PostFilterRecord(
        "Success" if status is None else status.code.text,
        "" if status is None else status.message,
        result.nominated_node,
        sorted(pod.key for pod in result.victims),
    )
    detail = result.detail
    if in_full and detail is not None and hasattr(detail, "candidates"):
        record.candidates = {
            name: Victims(sorted(p.key for p in c.victims), c.pdb_violations)
            for name, c in detail.candidates.items()
        }
        record.best = list(detail.best)
    return record


def start(pod: PodInfo, attempts: int, nodes: int) -> Decision:
    return Decision(pod.key, pod.scheduler_name, "error", attempts=attempts, nodes=nodes)
