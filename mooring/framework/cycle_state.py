"""What plugins pass to each other, and to themselves, within one scheduling cycle."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Self, TypeVar

T = TypeVar("T")

PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"


class CycleState:
    """A dictionary for one pod's cycle, with a memory that outlives it for pods of the same shape.

    `write` stores, `read` raises KeyError for what was never written (kube-scheduler's "not found").
    A value with a `clone()` method is cloned when the state is; others are shared.
    """

    __slots__ = ("_data", "memory")

    def __init__(self, memory: dict[Hashable, Any] | None = None) -> None:
        self._data: dict[str, Any] = {}
        self.memory = {} if memory is None else memory

    def read(self, key: str) -> Any:
        """The value written under `key`; KeyError where there is none."""
        return self._data[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self._data.get(key, default)

    def write(self, key: str, value: Any) -> None:
        self._data[key] = value

    def delete(self, key: str) -> None:
        self._data.pop(key, None)

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave for an earlier pod of the same shape, or gives now.

        For what follows from the pod's spec and labels alone, such as parsed selectors: it is made once
        for all replicas of a workload.
        """
        found = self.memory.get(key)
        if found is None:
            found = self.memory[key] = make()
        return found

    def clone(self) -> Self:
        """A copy whose changes the original does not see."""
        copy = type(self)(self.memory)
        copy._data = {
            key: value.clone() if hasattr(value, "clone") else value for key, value in self._data.items()
        }
        return copy
