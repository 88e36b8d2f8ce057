"""pre_filter and pre_score: each plugin looks at the pod once before the nodes are looked at.

For pods of one shape most answers are the same every time: a plugin that promises so (`skip(shape=True)`), or
that has a cache key, is called once per shape; its answer is cached together with what it wrote into the
cycle's state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mooring.framework.cycle_state import StateKey
from mooring.framework.pod import PodInfo
from mooring.framework.status import SKIP, SKIP_SHAPE, Code, Status
from mooring.runtime.containment import CONTAINED
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import raised


class Preparing(NamedTuple):
    """A plugin's pre_filter or pre_score."""

    plugin: str
    ask: Callable[[EngineState, PodInfo, EngineNodes], Any]
    by_shape: bool  # whether its answer follows from the shape


class Preparation:
    """The plugins of one extension point, for pods of one shape."""

    __slots__ = ("_order", "_point", "_sets", "_skipping", "_unsettled", "_writes")

    def __init__(self, point: str, plugins: Sequence[Preparing]) -> None:
        self._point = point
        self._order = [plugin.plugin for plugin in plugins]
        self._unsettled = list(plugins)  # those whose answer is not settled
        self._skipping: set[str] = set()
        self._writes: dict[StateKey[Any], Any] = {}
        self._sets: dict[tuple[str, ...], frozenset[str]] = {}

    def run(
        self, state: EngineState, pod: PodInfo, nodes: EngineNodes, take: Callable[[str, Any], bool]
    ) -> frozenset[str]:
        """Ask who must be asked; the plugins that skip. `take` gets every answer that is neither success
        nor Skip, and says whether to go on."""
        if self._writes:
            state.write_all(self._writes)
        skipped: list[str] = []
        settled: list[str] = []
        for name, ask, by_shape in self._unsettled:
            written = state.keys() if by_shape else None
            if state.sampling is not None:
                ask = state.sampling.timed(name, self._point, ask)
            try:
                answer = ask(state, pod, nodes)
            except CONTAINED as exc:
                answer = Status(Code.ERROR, str(raised(name, ask.__name__, exc)), exception=exc)
            if answer is None:
                if written is not None:
                    settled.append(name)
                    self._writes.update({key: state.read(key) for key in state.keys() - written})
            elif answer is SKIP or (isinstance(answer, Status) and answer.code is Code.SKIP):
                skipped.append(name)
                if by_shape or answer is SKIP_SHAPE:
                    settled.append(name)
            elif not take(name, answer):
                return self._before(name, skipped)
        if settled:
            self._settle(settled, skipped)
        names = tuple(skipped)
        skipping = self._sets.get(names)
        if skipping is None:
            skipping = self._sets[names] = frozenset(self._skipping.union(skipped))
        return skipping

    def _settle(self, settled: list[str], skipped: list[str]) -> None:
        self._unsettled = [each for each in self._unsettled if each.plugin not in settled]
        self._skipping.update(set(settled) & set(skipped))
        self._sets.clear()

    def _before(self, last: str, skipped: list[str]) -> frozenset[str]:
        """Who skipped before the plugin that ended it."""
        earlier = self._order[: self._order.index(last)]
        return frozenset(name for name in earlier if name in self._skipping or name in skipped)
