"""What plugins pass to each other, and to themselves, within one scheduling cycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from mooring.framework.pod import PodInfo

T = TypeVar("T")


class StateKey(Generic[T]):
    """The key of a value of type T in a CycleState.

    FREE_GPUS = StateKey[dict[str, int]]("free GPUs by node")

    Keys are compared by identity: plugins that share a value import the same key.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"


PODS_TO_ACTIVATE = StateKey[dict[str, PodInfo]]("kubernetes.io/pods-to-activate")
"""Pods by uid that return to the active queue once the cycle has succeeded."""


class CycleState:
    """Values of one pod's scheduling cycle, and a cache that all pods of the same shape share.

    A value with a `clone()` method is cloned when the state is; others are shared.
    """

    __slots__ = ("_cache", "_values")

    def __init__(self, cache: dict[StateKey[Any], Any] | None = None) -> None:
        self._values: dict[StateKey[Any], Any] = {}
        self._cache: dict[StateKey[Any], Any] = {} if cache is None else cache

    def read(self, key: StateKey[T]) -> T:
        """Return the value that was written in this cycle; raises KeyError if there is none."""
        value: T = self._values[key]
        return value

    def get(self, key: StateKey[T]) -> T | None:
        """Return the value that was written in this cycle, or None."""
        return self._values.get(key)

    def write(self, key: StateKey[T], value: T) -> None:
        """Store a value for the rest of this cycle."""
        self._values[key] = value

    def delete(self, key: StateKey[Any]) -> None:
        """Remove a value; no-op if there is none."""
        self._values.pop(key, None)

    def cached(self, key: StateKey[T], make: Callable[[], T]) -> T:
        """Return what `make` returned for an earlier pod of the same shape, or call it.

        For values computed from the pod's spec and labels alone, such as parsed selectors: they are computed
        once for all replicas of a workload.
        """
        value: T | None = self._cache.get(key)
        if value is None:
            value = self._cache[key] = make()
        return value

    def read_cached(self, key: StateKey[T]) -> T:
        """Return the cached value; raises KeyError if there is none."""
        value: T = self._cache[key]
        return value

    def get_cached(self, key: StateKey[T]) -> T | None:
        """Return the cached value, or None. The caller checks that it still holds."""
        return self._cache.get(key)

    def write_cached(self, key: StateKey[T], value: T) -> T:
        """Cache a value for later pods of the same shape, and return it."""
        self._cache[key] = value
        return value

    def clone(self) -> Self:
        """Return a copy with values of its own and the same cache."""
        copy = type(self)(self._cache)
        copy._values = {
            key: value.clone() if hasattr(value, "clone") else value for key, value in self._values.items()
        }
        return copy
