"""Plugins behind the verbs: pre_filter and filter as /filter, pre_score and score as /prioritize, the binding
cycle as /bind, and filters on nodes without their victims, then post_filter, as /preempt.

Every request is a cycle of its own: what a plugin writes to the EngineState is gone with it, so pre_filter
runs before each. Answers are kept for pods of the same shape as in the scheduler itself, so that the second
replica of a workload costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np
import numpy.typing as npt

from mooring.api.errors import ObjectError
from mooring.api.objects import Node, Pod
from mooring.core.binding import BindingCycle
from mooring.core.scheduler import Scheduler
from mooring.extender.serving.handler_verbs import NO_CACHE, NOT_KNOWN
from mooring.extender.serving.handlers import ExtenderError
from mooring.extender.serving.plugin_profile import PROFILE
from mooring.extender.serving.questions import Question
from mooring.extender.serving.verbs import Preemption
from mooring.extender.wire import MAX_EXTENDER_PRIORITY
from mooring.framework.nodes import BoolArray, IntArray
from mooring.framework.pod import PodInfo
from mooring.framework.status import SUCCESS, Code, Status, unresolvable, unschedulable
from mooring.runtime.changes import Changes
from mooring.runtime.engine_nodes import NodeStatuses
from mooring.runtime.engine_state import EngineState
from mooring.runtime.filtering import Answer
from mooring.runtime.profile import PreFilterOutcome, ShapeCache

CANDIDATE = unschedulable("the scheduler found victims here")
NO_CANDIDATE = unresolvable("the scheduler found no victims here")


class _Cycle:
    """One request: the pod before the plugins, which have seen it in pre_filter."""

    def __init__(self, plugins: ServedPlugins, pod: Pod) -> None:
        profile, cluster = plugins.profile, plugins.scheduler.cluster
        self.pod: PodInfo = cluster.info(pod)
        self.nodes = cluster.nodes
        self.cache: ShapeCache = profile.cache_for(self.pod.shape, len(self.nodes))
        self.state = EngineState(self.cache.values)
        self.outcome: PreFilterOutcome = profile.pre_filter(self.cache, self.state, self.pod, self.nodes)


class ServedPlugins:
    """A profile's plugins. With `cached`, nodes and pods come from informers; without, each request brings
    its nodes, and there are no pods on them."""

    def __init__(self, scheduler: Scheduler, *, cached: bool) -> None:
        self.scheduler = scheduler
        self.profile = scheduler.profiles[PROFILE]
        self._cached = cached
        self._sent: dict[str, Node] = {}
        self._last: Set[str] = frozenset()  # the names in the last request
        self._weights = sum(runner.weight for runner in self.profile.scores)

    # ---- filter

    async def filter(self, question: Question) -> Mapping[str, Status]:
        rows = self._rows(question)
        with self.scheduler.in_rehearsal():
            return self._filter(question, rows)

    def _filter(self, question: Question, rows: npt.NDArray[np.intp]) -> dict[str, Status]:
        names, is_known = question.names, rows >= 0
        refused = {names[i]: NOT_KNOWN for i in np.flatnonzero(~is_known).tolist()}
        if not is_known.any():
            return refused
        cycle = _Cycle(self, question.pod)
        outcome = cycle.outcome
        if outcome.status is not SUCCESS:
            return dict.fromkeys(names, outcome.status)
        allowed = self._mask(rows[is_known])
        if outcome.node_names is not None:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(outcome.restricting))}]"
            outside = unresolvable(reason)
            for i in np.flatnonzero(is_known).tolist():
                if names[i] not in outcome.node_names:
                    refused[names[i]] = outside
                    allowed[rows[i]] = False
        filtering = cycle.cache.filtering
        filtering.refresh(cycle.state, cycle.pod, cycle.nodes, allowed)
        failed = np.flatnonzero(is_known & ~filtering.feasible[rows])
        for i, row in zip(failed.tolist(), rows[failed].tolist(), strict=True):
            status = filtering.status(row)
            if names[i] not in refused and status is not None:
                refused[names[i]] = status
        return refused

    # ---- prioritize

    async def prioritize(self, question: Question) -> Sequence[int]:
        """Mooring's 0..100 as the protocol's 0..10: the weighted mean, rounded half up."""
        rows = self._rows(question)
        scores: IntArray = np.zeros(len(rows), np.int64)
        is_known = rows >= 0
        if is_known.any():
            with self.scheduler.in_rehearsal():
                total = self._total(question, self._mask(rows[is_known]))[rows[is_known]]
            step = 100 // MAX_EXTENDER_PRIORITY * self._weights
            scores[is_known] = (total + step // 2) // step
        answer: list[int] = scores.tolist()
        return answer

    def _total(self, question: Question, feasible: BoolArray) -> IntArray:
        """The sum of the weighted scores on each row that is asked about."""
        cycle = _Cycle(self, question.pod)
        candidates = cycle.nodes.where(feasible)
        self.profile.pre_score(cycle.cache, cycle.state, cycle.pod, candidates)
        scoring = cycle.cache.scoring
        scoring.refresh(cycle.state, cycle.pod, cycle.nodes, feasible, candidates, Changes(cycle.nodes, None))
        return scoring.total

    # ---- bind

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        status = await BindingCycle(self.profile, EngineState(), None, pod, node_name).run()
        if not status.ok:
            raise ExtenderError(status.message)

    # ---- preempt

    async def preempt(self, preemption: Preemption) -> Mapping[str, Sequence[str]]:
        """The candidates where the plugins let the pod pass once the victims are gone; of these the one that
        a post_filter chooses, if there is one. Nodes and victims that are not known here are left alone."""
        with self.scheduler.in_rehearsal():
            return self._preempt(preemption)

    def _preempt(self, preemption: Preemption) -> dict[str, list[str]]:
        victims = dict(self._victims(preemption))
        if not victims:
            return {}
        cycle = _Cycle(self, preemption.pod)
        if cycle.outcome.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return {}
        table = self.scheduler.cluster.table
        rows = np.array([table.row_of[name] for name in victims], np.intp)
        view = cycle.nodes.what_if(rows, list(victims.values()), [()] * len(victims))
        view.set_all_present(np.ones(view.present.shape, np.bool_), False)
        passed = Answer(self.profile.filters, cycle.state, cycle.pod, view).passed.tolist()
        kept = {
            name: [pod.uid for pod in pods]
            for (name, pods), passes in zip(victims.items(), passed, strict=True)
            if passes and (cycle.outcome.node_names is None or name in cycle.outcome.node_names)
        }
        return self._chosen(cycle, kept) if kept and self.profile.points.get("postFilter") else kept

    def _victims(self, preemption: Preemption) -> Iterator[tuple[str, list[PodInfo]]]:
        for name, victims in preemption.victims.items():
            node = self.scheduler.cluster.node(name)
            pods = {} if node is None else {pod.uid: pod for pod in node.pods}
            uids = [pod.uid for pod in victims.pods]
            if node is not None and all(uid in pods for uid in uids):
                yield name, [pods[uid] for uid in uids]

    def _chosen(self, cycle: _Cycle, kept: dict[str, list[str]]) -> dict[str, list[str]]:
        statuses = CandidateStatuses(self.scheduler.cluster.table.row_of, kept)
        result = self.profile.post_filter(cycle.state, cycle.pod, statuses)
        status, node = result.status or SUCCESS, result.nominated_node
        if status.code is Code.ERROR:
            raise ExtenderError(f"plugin {status.plugin}: {status.message}")
        if not status.ok or not node or node not in kept:
            return {}
        return {node: [pod.uid for pod in result.victims] or kept[node]}

    # ---- nodes

    def _rows(self, question: Question) -> npt.NDArray[np.intp]:
        """The row of each node that is asked about; -1 for one that is not known."""
        if not self._cached:
            if question.nodes is None:
                raise ExtenderError(NO_CACHE)
            self._take_over(question.nodes)
        row_of = self.scheduler.cluster.table.row_of
        return np.fromiter((row_of.get(name, -1) for name in question.names), np.intp, len(question.names))

    def _take_over(self, nodes: Sequence[Node]) -> None:
        """Let the table hold the nodes of this request, and of the one before: those that passed a filter
        are not all that there are, and all will come again with the next pod."""
        sent = {node.name: node for node in nodes}
        try:
            for name in self._sent.keys() - sent.keys() - self._last:
                self.scheduler.delete(self._sent.pop(name))
            for name, node in sent.items():
                if self._sent.get(name) is not node:
                    self.scheduler.apply(node)
                    self._sent[name] = node
            self._last = sent.keys()
        except ObjectError as error:
            raise ExtenderError(str(error)) from None

    def _mask(self, rows: npt.NDArray[np.intp]) -> BoolArray:
        mask = np.zeros(len(self.scheduler.cluster.table), np.bool_)
        mask[rows] = True
        return mask


class CandidateStatuses(NodeStatuses):
    """Statuses for post_filter: evicting pods helps on the candidates only."""

    def __init__(self, row_of: Mapping[str, int], candidates: Mapping[str, object]) -> None:
        self._row_of = row_of
        self._candidates = candidates

    def __getitem__(self, name: str) -> Status:
        if name not in self._row_of:
            raise KeyError(name)
        return CANDIDATE if name in self._candidates else NO_CANDIDATE

    def __iter__(self) -> Iterator[str]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)

    def rows_with(self, code: Code) -> npt.NDArray[np.intp]:
        rows = [row for name, row in self._row_of.items() if self[name].code is code]
        return np.array(sorted(rows), np.intp)
