"""Taints and the tolerations that pods have for them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from operator import itemgetter

from mooring.api.objects import Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
"""The effects that keep a pod off a node; PreferNoSchedule only lowers the node's score."""

OPERATORS = ("", "Equal", "Exists", "Lt", "Gt")
"""The operators which the API knows. Lt and Gt belong to the gate TaintTolerationComparisonOperators."""

_FEW = 16
"""Tolerations that are compared one by one."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint.

    An empty effect or key stands for any. With an empty key and Equal the values alone are compared. Lt and
    Gt never match: their gate is off by default.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


class Tolerations:
    """The tolerations of a pod, by key where there are many: nodes may have thousands of taints, too."""

    def __init__(self, tolerations: Sequence[Toleration]) -> None:
        self._by_key: dict[str, list[tuple[int, Toleration]]] | None = None
        self._all = tolerations
        if len(tolerations) > _FEW:
            self._by_key = {}
            first: dict[tuple[str, str, str, str], Toleration] = {}  # of those that cover the same taints
            for one in tolerations:
                first.setdefault((one.key, one.operator, one.value, one.effect), one)
            for place, one in enumerate(first.values()):
                self._by_key.setdefault(one.key, []).append((place, one))

    def find(self, taint: Taint) -> Toleration | None:
        """Return the first toleration that covers a taint."""
        if self._by_key is None:
            return next((one for one in self._all if tolerates(one, taint)), None)
        pairs = [*self._by_key.get(taint.key, ()), *(self._by_key.get("", ()) if taint.key else ())]
        matching = [pair for pair in pairs if tolerates(pair[1], taint)]
        return min(matching, key=itemgetter(0))[1] if matching else None


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: Container[str] = HARD_EFFECTS,
) -> Taint | None:
    """The first taint with one of the effects that no toleration covers."""
    index = Tolerations(tolerations)
    return next((taint for taint in taints if taint.effect in effects and index.find(taint) is None), None)
