"""Cycle state with what only the engine reads and writes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Self

from mooring.framework.cycle_state import CycleState

if TYPE_CHECKING:
    from mooring.runtime.stopwatch import PluginStopwatch

_NONE: frozenset[str] = frozenset()


class EngineState(CycleState):
    """The CycleState that the engine hands to plugins.

    `skip_filter` and `skip_score` name the plugins that take no part in this cycle; `sampling` times plugins
    one by one in the cycles that are sampled.
    """

    __slots__ = ("sampling", "skip_filter", "skip_score")

    def __init__(self, memory: dict[Hashable, Any] | None = None) -> None:
        super().__init__(memory)
        self.skip_filter = self.skip_score = _NONE
        self.sampling: PluginStopwatch | None = None

    def write_all(self, values: Mapping[str, Any]) -> None:
        self._data.update(values)

    def keys(self) -> set[str]:
        return set(self._data)

    def clone(self) -> Self:
        copy = super().clone()
        copy.skip_filter, copy.skip_score = self.skip_filter, self.skip_score
        copy.sampling = self.sampling
        return copy


def engine_state(state: CycleState) -> EngineState:
    """Return the state as the engine's own; one that a plugin made gets an engine state with its values."""
    if isinstance(state, EngineState):
        return state
    converted = EngineState(state.memory)
    converted._data = state._data
    return converted
