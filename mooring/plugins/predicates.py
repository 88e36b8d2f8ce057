"""Questions about pods that the node table counts for plugins; equal questions share one count.

They are compared by content and looked up often: selectors compare by identity (equal ones are one object)
and frozensets remember their hash, so that hashing a predicate touches no text.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    selections: tuple[PodsSelected, ...]

    @property
    def count_terminating(self) -> bool:
        return True

    def matches(self, shape: Shape) -> bool:
        return all(selected.matches(shape) for selected in self.selections)


@dataclass(frozen=True, slots=True)
class CarriesTerm:
    """Pods that have this inter-pod affinity term in their spec."""

    term: AffinityTerm

    @property
    def count_terminating(self) -> bool:
        return True

    def matches(self, shape: Shape) -> bool:
        return self.term in shape.affinity_terms
