"""Taints and the tolerations that pods have for them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from mooring.api.objects import Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
"""The effects that keep a pod off a node; PreferNoSchedule only lowers the node's score."""

OPERATORS = ("", "Equal", "Exists", "Lt", "Gt")
"""The operators which the API knows. Lt and Gt belong to the gate TaintTolerationComparisonOperators."""


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


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: Container[str] = HARD_EFFECTS,
) -> Taint | None:
    """The first taint with one of the effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(each, taint) for each in tolerations):
            return taint
    return None
