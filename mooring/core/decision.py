"""The decision record: one attempt at one pod, told completely. Everything that explains reads this."""

from __future__ import annotations

import msgspec
import numpy as np

from mooring.core.algorithm import Choice
from mooring.framework.plugin import PostFilterResult
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status


class Refusal(msgspec.Struct, frozen=True):
    """Why a node, or the pod as a whole, was refused, and by which plugin."""

    status: str
    plugin: str
    reasons: list[str]


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
    """An attempt's outcome; the parts below `message` are there when decisions are recorded in full."""

    pod: str
    profile: str
    result: str  # scheduled, unschedulable or error
    node: str = ""
    reason: str = ""  # of the PodScheduled condition
    message: str = ""
    attempts: int = 0
    nodes: int = 0
    unschedulable_plugins: list[str] = []
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
        if self.node not in self.feasible or len(self.total) < 2:
            return None
        mine = self.total[self.feasible.index(self.node)]
        others = [t for n, t in zip(self.feasible, self.total, strict=True) if n != self.node]
        return mine - max(others)


def refusal(status: Status) -> Refusal:
    return Refusal(status.code.text, status.plugin, list(status.reasons))


def record_choice(decision: Decision, choice: Choice, names: list[str]) -> None:
    """Fill in what the filters and scores said. Copies, since the columns go on changing."""
    diagnosis = choice.diagnosis
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
    decision.total = scoring.total[rows].tolist()
    for column in scoring.columns:
        weight = column.runner.weight
        weighted = column.weighted[rows]
        decision.scores[column.runner.name] = PluginScore(
            weight, column.raw_scores(rows).tolist(), (weighted // weight).tolist(), weighted.tolist()
        )


def record_post_filter(result: PostFilterResult) -> PostFilterRecord:
    status = result.status
    record = PostFilterRecord(
        "Success" if status is None else status.code.text,
        "" if status is None else status.message,
        result.nominated_node,
        sorted(pod.key for pod in result.victims),
    )
    detail = result.detail
    if detail is not None and hasattr(detail, "candidates"):
        record.candidates = {
            name: Victims(sorted(p.key for p in c.victims), c.pdb_violations)
            for name, c in detail.candidates.items()
        }
        record.best = list(detail.best)
    return record


def start(pod: PodInfo, attempts: int, nodes: int) -> Decision:
    return Decision(pod.key, pod.scheduler_name, "error", attempts=attempts, nodes=nodes)
