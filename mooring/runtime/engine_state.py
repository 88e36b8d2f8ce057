"""Cycle state with what only the engine reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from mooring.framework.cycle_state import CycleState, StateKey

if TYPE_CHECKING:
    from mooring.runtime.stopwatch import PluginStopwatch

_NONE: frozenset[str] = frozenset()


class EngineState(CycleState):
    """The CycleState that the engine passes to plugins.

    `skip_filter` and `skip_score` name the plugins that take no part in this cycle; `sampling` times plugins
    one by one in the cycles that are sampled.
    """

    __slots__ = ("sampling", "skip_filter", "skip_score")

    def __init__(self, cache: dict[StateKey[Any], Any] | None = None) -> None:
        super().__init__(cache)
        self.skip_filter = self.skip_score = _NONE
        self.sampling: PluginStopwatch | None = None

    def write_all(self, values: Mapping[StateKey[Any], Any]) -> None:
        self._values.update(values)

    def keys(self) -> set[StateKey[Any]]:
        return set(self._values)

    def discard_cached(self, key: StateKey[Any]) -> None:
        self._cache.pop(key, None)

    def with_empty_cache(self) -> Self:
        """Return a clone that shares no cache."""
        copy = self.clone()
        copy._cache = {}
        return copy

    def clone(self) -> Self:
        copy = super().clone()
        copy.skip_filter, copy.skip_score = self.skip_filter, self.skip_score
        copy.sampling = self.sampling
        return copy


def engine_state(state: CycleState) -> EngineState:
    """Return the state as the engine's own; the values of a plain CycleState are shared with a new one."""
    if isinstance(state, EngineState):
        return state
    converted = EngineState(state._cache)
    converted._values = state._values
    return converted
