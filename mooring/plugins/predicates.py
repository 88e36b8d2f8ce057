"""Questions about pods that the node table counts for plugins; equal questions share one count.

They are compared by content and looked up often: selectors compare by identity (equal ones are one object)
and frozensets remember their hash, so that hashing a predicate touches no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from mooring.api.selectors import Selector
from mooring.framework.affinity import AffinityTerm
from mooring.framework.pod import Shape


@dataclass(frozen=True, slots=True)
class PodsSelected:
    """Pods of these namespaces (None: of all) whose labels the selector matches."""

    namespaces: frozenset[str] | None
    selector: Selector
    count_terminating: bool = True

    def matches(self, shape: Shape) -> bool:
        if self.namespaces is not None and shape.namespace not in self.namespaces:
            return False
        return self.selector.matches(shape.labels)


@dataclass(frozen=True, slots=True)
class SelectedByAll:
    """Pods that every one of these selects."""

    selections: frozenset[PodsSelected]

    @property
    def count_terminating(self) -> bool:
        return True

    def matches(self, shape: Shape) -> bool:
        return all(selected.matches(shape) for selected in self.selections)


@dataclass(frozen=True, slots=True)
class SelectedByAny:
    """Pods that at least one of these selects."""

    selections: frozenset[PodsSelected]

    @property
    def count_terminating(self) -> bool:
        return True

    def matches(self, shape: Shape) -> bool:
        return any(selected.matches(shape) for selected in self.selections)


@dataclass(frozen=True, slots=True)
class CarriesAny:
    """Pods that have at least one of these inter-pod affinity terms in their spec."""

    terms: frozenset[AffinityTerm]

    @property
    def count_terminating(self) -> bool:
        return True

    def matches(self, shape: Shape) -> bool:
        return not self.terms.isdisjoint(shape.affinity_terms)


K = TypeVar("K")


class _Weighted(Generic[K]):
    """Weights by selection or term; compared by content, and hashed once."""

    __slots__ = ("_hash", "weights")

    count_terminating = True

    def __init__(self, weights: Mapping[K, int]) -> None:
        self.weights = weights
        self._hash = hash(frozenset(weights.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Weighted) and type(other) is type(self) and other.weights == self.weights

    def __hash__(self) -> int:
        return self._hash


class SelectedWithWeight(_Weighted[PodsSelected]):
    """Pods that some of these select, each counted with the sum of the weights."""

    __slots__ = ()

    def matches(self, shape: Shape) -> int:
        return sum(weight for selected, weight in self.weights.items() if selected.matches(shape))


class CarriesWithWeight(_Weighted[AffinityTerm]):
    """Pods that have some of these terms in their spec, each counted with the sum of the weights."""

    __slots__ = ()

    def matches(self, shape: Shape) -> int:
        return sum(self.weights.get(term, 0) for term in shape.affinity_terms)
