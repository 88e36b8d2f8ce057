"""CycleState: the values of one scheduling cycle, and those cached for a pod shape."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import CycleState, StateKey
from mooring.runtime.engine_state import EngineState


class Counted:
    """A value that knows how to be copied."""

    def __init__(self, count: int) -> None:
        self.count = count

    def clone(self) -> Counted:
        return Counted(self.count)


NUMBER = StateKey[int]("number")
OTHER = StateKey[int]("other")
COUNTED = StateKey[Counted]("counted")
NUMBERS = StateKey[list[int]]("numbers")


def test_what_was_written_is_read() -> None:
    state = CycleState()
    state.write(NUMBER, 7)
    assert state.read(NUMBER) == 7
    state.write(NUMBER, 8)
    assert state.read(NUMBER) == state.get(NUMBER) == 8


def test_what_was_never_written_is_a_key_error() -> None:
    with pytest.raises(KeyError, match=r"StateKey.*number"):
        CycleState().read(NUMBER)
    assert CycleState().get(NUMBER) is None


def test_keys_of_the_same_name_are_different_keys() -> None:
    state = CycleState()
    state.write(NUMBER, 7)
    assert state.get(StateKey[int]("number")) is None


def test_what_was_deleted_is_gone() -> None:
    state = CycleState()
    state.write(NUMBER, 7)
    state.delete(NUMBER)
    state.delete(OTHER)
    with pytest.raises(KeyError):
        state.read(NUMBER)


def test_a_clone_has_its_own_entries() -> None:
    state = CycleState()
    state.write(NUMBER, 1)
    copy = state.clone()
    copy.write(NUMBER, 2)
    copy.write(OTHER, 3)
    assert state.read(NUMBER) == 1
    assert state.get(OTHER) is None
    copy.delete(NUMBER)
    assert state.read(NUMBER) == 1


def test_values_that_can_be_cloned_are_and_others_are_shared() -> None:
    state = CycleState()
    state.write(COUNTED, Counted(1))
    state.write(NUMBERS, [1])
    copy = state.clone()
    copy.read(COUNTED).count = 2
    copy.read(NUMBERS).append(2)
    assert state.read(COUNTED).count == 1
    assert state.read(NUMBERS) == [1, 2]


def test_a_clone_has_the_plugins_that_skip() -> None:
    state = EngineState()
    state.skip_filter, state.skip_score = frozenset({"A"}), frozenset({"B"})
    copy = state.clone()
    assert (copy.skip_filter, copy.skip_score) == (frozenset({"A"}), frozenset({"B"}))


def test_cached_values_are_made_once_for_all_states_that_share_a_cache() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return made

    cache: dict[StateKey[Any], Any] = {}
    first, second, other = CycleState(cache), CycleState(cache), CycleState()
    assert first.cached(NUMBERS, make) is second.cached(NUMBERS, make)
    assert first.clone().cached(NUMBERS, make) is second.get_cached(NUMBERS) is second.read_cached(NUMBERS)
    assert len(made) == 1
    assert other.get_cached(NUMBERS) is None
    other.cached(NUMBERS, make)
    assert len(made) == 2


def test_a_cached_value_can_be_replaced() -> None:
    state = CycleState()
    assert state.write_cached(NUMBER, 7) == 7
    assert state.cached(NUMBER, lambda: 8) == 7
    state.write_cached(NUMBER, 9)
    assert state.read_cached(NUMBER) == 9
    with pytest.raises(KeyError):
        state.read(NUMBER)
