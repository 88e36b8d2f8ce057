"""A profile under an observer's eyes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from mooring.framework.nodes import Verdicts
from mooring.framework.plugin import PostFilterResult, PreFilterResult
from mooring.framework.status import Code, Status
from mooring.runtime.engine_state import EngineState
from mooring.runtime.observer import (
    BINDING,
    SCORED,
    UNSCORED,
    Laps,
    Observer,
    Points,
    Record,
    Scheduled,
)

Answer = TypeVar("Answer")
Ask = Callable[..., Any]


class Stopwatch:
    """Where a profile's laps and times go, bound once. `laps` are those of the attempt under way."""

    def __init__(self, observer: Observer, profile: str) -> None:
        self.observer = observer
        self.timer = observer.timer
        self.laps: Laps = []
        self.pre_enqueue = observer.extension_point(profile, "PreEnqueue")
        self.post_filter = observer.extension_point(profile, "PostFilter")
        self.unreserve = observer.extension_point(profile, "Unreserve")
        self.cycle_samples = Sampler(observer)
        self.pre_enqueue_samples = Sampler(observer)
        self.scheduled: dict[int, Scheduled] = {
            len(points) + 1: observer.scheduled(profile, points) for points in (SCORED, UNSCORED, BINDING)
        }
        self._profile = profile

    def failed(self) -> None:
        """A plugin failed on the way to a node."""
        self._break_off(SCORED, Code.ERROR, None)
        self.no_node()

    def no_fit(self, state: EngineState, pre_filter: Status | None) -> None:
        """The pod as a whole, or on every node, was refused."""
        if pre_filter is not None:
            self._break_off(SCORED, pre_filter.code, state)
        else:
            self.observer.broken_off(self._profile, SCORED, self.laps, Code.SUCCESS, state)

    def no_node(self) -> None:
        """The search for a node has ended without one."""
        self.observer.algorithm_failed(self.timer() - self.laps[0])

    def refused(self, code: Code, state: EngineState) -> None:
        """Reserve or Permit said anything but yes."""
        points = SCORED if len(self.laps) > SCORED.index("Reserve") else UNSCORED
        self._break_off(points, code, state)

    def binding_failed(self, laps: Laps, before: int, code: Code, state: EngineState) -> None:
        """PreBind or Bind failed; `before` it there were so many laps."""
        if before > SCORED.index("Permit"):
            points = SCORED
        else:
            points = UNSCORED if before else BINDING
        self.observer.broken_off(self._profile, points, laps, code, state)

    def _break_off(self, points: Points, code: Code, state: EngineState | None) -> None:
        self.laps.append(self.timer())
        self.observer.broken_off(self._profile, points, self.laps, code, state)


class Sampler:
    """Says which runs are sampled: every so many, counting down to it."""

    def __init__(self, observer: Observer) -> None:
        self.plugins = PluginStopwatch(observer)
        self._every = observer.sample_every
        self._left = self._every

    def next(self) -> PluginStopwatch | None:
        """How to watch the plugins in the run that starts now."""
        self._left -= 1
        if self._left:
            return None
        self._left = self._every
        return self.plugins


class PluginStopwatch:
    """Times plugins one by one: the `sampling` of the cycles that are sampled."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._timer = observer.timer
        self._records: dict[tuple[str, str], Record] = {}
        self._timed: dict[tuple[str, str], Ask] = {}

    def _record(self, plugin: str, point: str) -> Record:
        record = self._records.get((plugin, point))
        if record is None:
            record = self._records[plugin, point] = self._observer.plugin(plugin, point)
        return record

    def timed(self, plugin: str, point: str, ask: Ask) -> Ask:
        """A plugin's method at an extension point, always the same, in a form that is timed."""
        timed = self._timed.get((plugin, point))
        if timed is None:
            make = _timed_binding if point in BINDING else _timed
            timed = self._timed[plugin, point] = make(self._timer, self._record(plugin, point), ask)
        return timed

    def run(
        self, plugin: str, point: str, state: EngineState, ask: Callable[..., Answer], *args: Any
    ) -> Answer:
        """Have a filter or score plugin run, and time it as a whole: what it asks in turn is part of that."""
        timer, code = self._timer, Code.ERROR
        state.sampling = None
        began = timer()
        try:
            answer = ask(*args)
            code = _code_of_verdicts(answer) if isinstance(answer, Verdicts) else Code.SUCCESS
            return answer
        finally:
            seconds = timer() - began
            state.sampling = self
            self._record(plugin, point)(code, seconds)


def _timed(timer: Callable[[], float], record: Record, ask: Ask) -> Ask:
    @wraps(ask)
    def timed_call(*args: Any) -> Any:
        code, began = Code.ERROR, timer()
        try:
            answer = ask(*args)
            code = Code.SUCCESS if answer is None else _code_of(answer)
            return answer
        finally:
            record(code, timer() - began)

    return timed_call


def _timed_binding(timer: Callable[[], float], record: Record, ask: Ask) -> Ask:
    """Wrap a method of the binding cycle, which may be async, and record its duration."""

    @wraps(ask)
    async def timed_call(*args: Any) -> Any:
        code, began = Code.ERROR, timer()
        try:
            answer = ask(*args)
            if hasattr(answer, "__await__"):
                answer = await answer
            code = _code_of(answer)
            return answer
        finally:
            record(code, timer() - began)

    return timed_call


def _code_of(answer: object) -> Code:
    if isinstance(answer, Status):
        return answer.code
    if isinstance(answer, PostFilterResult):
        return _code_of(answer.status)
    return Code.SUCCESS if answer is None or isinstance(answer, PreFilterResult) else Code.ERROR


def _code_of_verdicts(verdicts: Verdicts) -> Code:
    """Success where any of the nodes passed."""
    if not len(verdicts.codes) or not verdicts.codes.all():
        return Code.SUCCESS
    return verdicts.statuses[verdicts.codes.item(0)].code
