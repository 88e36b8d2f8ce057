"""A profile that tells an Observer how long its extension points and plugins take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from mooring.framework.changes import Changes
from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import BoolArray, Nodes, NodeStatuses
from mooring.framework.observer import Observer
from mooring.framework.plugin import Plugin, PostFilterResult
from mooring.framework.pod import PodInfo
from mooring.framework.profile import Bound, PreFilterOutcome, Profile, ShapeMemory, first_refusal
from mooring.framework.runners import FilterRunner, ScoreRunner
from mooring.framework.sampling import (
    SampledFilterRunner,
    SampledScoreRunner,
    sampled,
    sampled_binding,
    timed_pre_enqueue,
)
from mooring.framework.scoring import Scoring
from mooring.framework.status import SUCCESS, Code, Status

PREEMPTION = "DefaultPreemption"

_LABELS = {
    "pre_enqueue": "PreEnqueue",
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind": "PreBind",
    "bind": "Bind",
    "post_bind": "PostBind",
}
_BINDING = frozenset({"pre_bind", "bind", "post_bind"})
_EVALUATED = ("PreFilter", "Filter", "PreScore", "Score")


class ObservedProfile(Profile):
    """Times every extension point and, in the attempts that the observer samples, every plugin.

    `evaluations` counts the attempts at an extension point by the set of plugins that took no part.
    """

    def __init__(self, observer: Observer, scheduler_name: str, *args: Any) -> None:
        self._observer = observer
        self.timer = observer.timer
        super().__init__(scheduler_name, *args)
        self.took = {
            method: observer.extension_point(scheduler_name, point) for method, point in _LABELS.items()
        }
        self._timed_pre_enqueues = [
            (name, timed_pre_enqueue(ask, observer.timer, observer.plugin(name, "PreEnqueue")))
            for name, ask in self._pre_enqueues
        ]
        self.evaluations: dict[str, Counter[frozenset[str]]] = {point: Counter() for point in _EVALUATED}

    def _filter_runner(self, plugin: Plugin) -> FilterRunner:
        return SampledFilterRunner(plugin, self._observer)

    def _score_runner(self, plugin: Plugin, weight: int) -> ScoreRunner:
        return SampledScoreRunner(plugin, weight, self._observer)

    def _bound(self, point: str, method: str) -> list[Bound]:
        bound = super()._bound(point, method)
        if method == "pre_enqueue":  # has no cycle whose state could say whether it is timed
            return bound
        sample = sampled_binding if method in _BINDING else sampled
        observer = self._observer
        return [
            (name, sample(ask, observer.timer, observer.plugin(name, _LABELS[method]))) for name, ask in bound
        ]

    def pre_enqueue(self, pod: PodInfo) -> Status:
        timer = self.timer
        began = timer()
        asks = self._timed_pre_enqueues if self._observer.sampled() else self._pre_enqueues
        status = first_refusal(asks, pod)
        self.took["pre_enqueue"](status.code, timer() - began)
        return status

    def pre_filter(
        self, memory: ShapeMemory, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterOutcome:
        timer, code = self.timer, Code.ERROR
        state.sampled = self._observer.sampled()
        began = timer()
        try:
            outcome = super().pre_filter(memory, state, pod, nodes)
            code = outcome.status.code
            return outcome
        finally:
            self.took["pre_filter"](code, timer() - began)
            self.evaluations["PreFilter"][state.skip_filter] += 1

    def filter(
        self, memory: ShapeMemory, state: CycleState, pod: PodInfo, nodes: Nodes, allowed: BoolArray | None
    ) -> Changes:
        timer, code = self.timer, Code.ERROR
        began = timer()
        try:
            changes = super().filter(memory, state, pod, nodes, allowed)
            code = Code.SUCCESS
            return changes
        finally:
            self.took["filter"](code, timer() - began)
            self.evaluations["Filter"][state.skip_filter] += 1

    def pre_score(self, memory: ShapeMemory, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        timer, code = self.timer, Code.ERROR
        began = timer()
        try:
            super().pre_score(memory, state, pod, nodes)
            code = Code.SUCCESS
        finally:
            self.took["pre_score"](code, timer() - began)
            self.evaluations["PreScore"][state.skip_score] += 1

    def score(
        self,
        memory: ShapeMemory,
        state: CycleState,
        pod: PodInfo,
        nodes: Nodes,
        feasible: BoolArray,
        candidates: Nodes,
        changes: Changes,
    ) -> Scoring:
        timer, code = self.timer, Code.ERROR
        began = timer()
        try:
            scoring = super().score(memory, state, pod, nodes, feasible, candidates, changes)
            code = Code.SUCCESS
            return scoring
        finally:
            self.took["score"](code, timer() - began)
            self.evaluations["Score"][state.skip_score] += 1

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
        began = self.timer()
        result = super().post_filter(state, pod, statuses)
        self.took["post_filter"]((result.status or SUCCESS).code, self.timer() - began)
        return result

    def _post_filter_one(
        self,
        name: str,
        ask: Callable[..., Any],
        state: CycleState,
        pod: PodInfo,
        statuses: NodeStatuses,
    ) -> PostFilterResult:
        if name == PREEMPTION:
            self._observer.preemption_attempted()
        return super()._post_filter_one(name, ask, state, pod, statuses)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        began = self.timer()
        status = super().reserve(state, pod, node_name)
        self.took["reserve"](status.code, self.timer() - began)
        return status

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        began = self.timer()
        super().unreserve(state, pod, node_name)
        self.took["unreserve"](Code.SUCCESS, self.timer() - began)

    def permit(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status, dict[str, tuple[float, Status]]]:
        began = self.timer()
        status, waits = super().permit(state, pod, node_name)
        self.took["permit"](Code.WAIT if waits else status.code, self.timer() - began)
        return status, waits
