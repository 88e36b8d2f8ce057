"""CycleState: what one cycle's plugins tell each other."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import CycleState
from mooring.runtime.engine_state import EngineState


class Counted:
    """A value that knows how to be copied."""

    def __init__(self, count: int) -> None:
        self.count = count

    def clone(self) -> Counted:
        return Counted(self.count)


def test_what_was_written_is_read() -> None:
    state = CycleState()
    state.write("key", 7)
    assert state.read("key") == 7
    state.write("key", 8)
    assert state.read("key") == 8


def test_what_was_never_written_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="key"):
        CycleState().read("key")


def test_get_has_a_default() -> None:
    state = CycleState()
    assert state.get("key") is None
    assert state.get("key", 3) == 3
    state.write("key", None)
    assert state.get("key", 3) is None


def test_what_was_deleted_is_gone() -> None:
    state = CycleState()
    state.write("key", 7)
    state.delete("key")
    state.delete("never written")
    with pytest.raises(KeyError):
        state.read("key")


def test_a_clone_has_its_own_entries() -> None:
    state = CycleState()
    state.write("kept", 1)
    copy = state.clone()
    copy.write("kept", 2)
    copy.write("new", 3)
    assert state.read("kept") == 1
    assert state.get("new") is None
    copy.delete("kept")
    assert state.read("kept") == 1


def test_values_that_can_be_cloned_are_and_others_are_shared() -> None:
    state = CycleState()
    state.write("cloned", Counted(1))
    state.write("shared", [1])
    copy = state.clone()
    copy.read("cloned").count = 2
    copy.read("shared").append(2)
    assert state.read("cloned").count == 1
    assert state.read("shared") == [1, 2]


def test_a_clone_knows_who_skips() -> None:
    state = EngineState()
    state.skip_filter, state.skip_score = frozenset({"A"}), frozenset({"B"})
    copy = state.clone()
    assert (copy.skip_filter, copy.skip_score) == (frozenset({"A"}), frozenset({"B"}))


def test_what_is_remembered_is_made_once_for_all_states_with_the_same_memory() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return made

    memory: dict[Any, Any] = {}
    first, second, other = CycleState(memory), CycleState(memory), CycleState()
    assert first.remember("key", make) is second.remember("key", make)
    assert first.clone().remember("key", make) is made
    assert len(made) == 1
    other.remember("key", make)
    assert len(made) == 2
