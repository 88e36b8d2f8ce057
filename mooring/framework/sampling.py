"""Timing single plugins, in the attempts that an Observer samples.

What is here stands between the framework and a plugin's method when there is an observer. In an attempt that
is not sampled it costs one look at the cycle's state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import BoolArray, IntArray, NodeInfo, Nodes, Verdicts
from mooring.framework.observer import Observer, Record
from mooring.framework.plugin import Plugin, PostFilterResult, PreFilterResult
from mooring.framework.pod import PodInfo
from mooring.framework.runners import FilterRunner, ScoreRunner
from mooring.framework.status import Code, Status

Answer = TypeVar("Answer")
Ask = Callable[..., Any]


def sampled(ask: Ask, timer: Callable[[], float], record: Record) -> Ask:
    """A plugin's method of three arguments, the cycle's state first, that is timed where that says so."""

    def asked(state: CycleState, pod: PodInfo, about: Any) -> Any:
        if not state.sampled:
            return ask(state, pod, about)
        return timed(timer, record, state, _code_of, ask, state, pod, about)

    asked.__name__ = ask.__name__
    return asked


def timed_pre_enqueue(ask: Ask, timer: Callable[[], float], record: Record) -> Ask:
    """A plugin's pre_enqueue that is timed: it belongs to no cycle, so the caller chooses."""

    def asked(pod: PodInfo) -> Any:
        code, began = Code.ERROR, timer()
        try:
            answer = ask(pod)
            code = _code_of(answer)
            return answer
        finally:
            record(code, timer() - began)

    return asked


def sampled_binding(ask: Ask, timer: Callable[[], float], record: Record) -> Ask:
    """The same for methods of the binding cycle, which may be waited for."""

    async def waited_for(state: CycleState, pod: PodInfo, node_name: str) -> Any:
        code, began = Code.ERROR, timer()
        try:
            answer = ask(state, pod, node_name)
            if hasattr(answer, "__await__"):
                answer = await answer
            code = _code_of(answer)
            return answer
        finally:
            record(code, timer() - began)

    def asked(state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return (waited_for if state.sampled else ask)(state, pod, node_name)

    asked.__name__ = ask.__name__
    return asked


def timed(
    timer: Callable[[], float],
    record: Record,
    state: CycleState,
    code_of: Callable[[Any], Code],
    ask: Callable[..., Answer],
    *args: Any,
) -> Answer:
    """Ask a plugin and record how long it took; what it asks in turn is part of that."""
    state.sampled = False
    code, began = Code.ERROR, timer()
    try:
        answer = ask(*args)
        code = code_of(answer)
        return answer
    finally:
        record(code, timer() - began)
        state.sampled = True


def _code_of(answer: object) -> Code:
    if isinstance(answer, PostFilterResult):
        answer = answer.status
    if answer is None or isinstance(answer, PreFilterResult):
        return Code.SUCCESS
    return answer.code if isinstance(answer, Status) else Code.ERROR


def _code_of_verdicts(verdicts: Verdicts | None) -> Code:
    """Success where any of the nodes passed."""
    if verdicts is None or not len(verdicts.codes) or not verdicts.codes.all():
        return Code.SUCCESS
    return verdicts.statuses[verdicts.codes.item(0)].code


def _code_of_scores(_: object) -> Code:
    return Code.SUCCESS


class SampledFilterRunner(FilterRunner):
    def __init__(self, plugin: Plugin, observer: Observer) -> None:
        super().__init__(plugin)
        self._timer = observer.timer
        self._record = observer.plugin(plugin.name, "Filter")

    def run(
        self, state: CycleState, pod: PodInfo, nodes: Nodes, alive: BoolArray | None = None
    ) -> Verdicts | None:
        ask = FilterRunner.run
        if not state.sampled:
            return ask(self, state, pod, nodes, alive)
        return timed(self._timer, self._record, state, _code_of_verdicts, ask, self, state, pod, nodes, alive)

    def run_one(self, state: CycleState, pod: PodInfo, node: NodeInfo, view: Nodes) -> Verdicts | None:
        ask = FilterRunner.run_one
        if not state.sampled:
            return ask(self, state, pod, node, view)
        return timed(self._timer, self._record, state, _code_of_verdicts, ask, self, state, pod, node, view)


class SampledScoreRunner(ScoreRunner):
    def __init__(self, plugin: Plugin, weight: int, observer: Observer) -> None:
        super().__init__(plugin, weight)
        self._timer = observer.timer
        self._score_record = observer.plugin(plugin.name, "Score")
        self._normalize_record = observer.plugin(plugin.name, "ScoreExtensionNormalize")

    def run(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        ask = ScoreRunner.run
        if not state.sampled:
            return ask(self, state, pod, nodes)
        return timed(self._timer, self._score_record, state, _code_of_scores, ask, self, state, pod, nodes)

    def run_one(self, state: CycleState, pod: PodInfo, node: NodeInfo, view: Nodes) -> int:
        ask = ScoreRunner.run_one
        if not state.sampled:
            return ask(self, state, pod, node, view)
        return timed(
            self._timer, self._score_record, state, _code_of_scores, ask, self, state, pod, node, view
        )

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        ask, record = ScoreRunner.normalize, self._normalize_record
        if not state.sampled:
            return ask(self, state, pod, scores, nodes)
        return timed(self._timer, record, state, _code_of_scores, ask, self, state, pod, scores, nodes)
