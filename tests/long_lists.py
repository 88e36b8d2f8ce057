"""Pod specs as long as a request may be: thousands of terms, constraints or tolerations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Spec = dict[str, Any]


def _term(i: int, key: str = "kubernetes.io/hostname") -> Spec:
    return {"labelSelector": {"matchLabels": {"app": str(i)}}, "topologyKey": key}


def _required(kind: str, term: Callable[[int], Spec]) -> Callable[[int], Spec]:
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    return lambda n: {"affinity": {kind: {name: [term(i) for i in range(n)]}}}


def _preferred(kind: str, member: str, term: Callable[[int], Spec]) -> Callable[[int], Spec]:
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    return lambda n: {"affinity": {kind: {name: [{"weight": 1, member: term(i)} for i in range(n)]}}}


def _spread(action: str) -> Callable[[int], Spec]:
    def spec(n: int) -> Spec:
        constraints = [
            {
                "maxSkew": 1,
                "topologyKey": f"example.com/k{i}",
                "whenUnsatisfiable": action,
                "labelSelector": {"matchLabels": {"app": str(i)}},
            }
            for i in range(n)
        ]
        return {"topologySpreadConstraints": constraints}

    return spec


def _exists(i: int) -> Spec:
    return {"matchExpressions": [{"key": f"example.com/k{i}", "operator": "Exists"}]}


LONG_SPECS: dict[str, Callable[[int], Spec]] = {
    "affinity": _required("podAffinity", _term),
    "anti-affinity": _required("podAntiAffinity", _term),
    "equal anti-affinity": _required("podAntiAffinity", lambda i: _term(0)),
    "anti-affinity by many keys": _required("podAntiAffinity", lambda i: _term(0, f"example.com/k{i}")),
    "preferred affinity": _preferred("podAffinity", "podAffinityTerm", _term),
    "preferred anti-affinity": _preferred("podAntiAffinity", "podAffinityTerm", _term),
    "preferred nodes": _preferred("nodeAffinity", "preference", _exists),
    "hard spread": _spread("DoNotSchedule"),
    "soft spread": _spread("ScheduleAnyway"),
    "tolerations": lambda n: {"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(n)]},
}
