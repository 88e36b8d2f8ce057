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


def _container(n: int) -> Spec:
    """A container with host ports of its own addresses."""
    ports = [
        {
            "containerPort": i + 1,
            "hostPort": i + 1,
            "hostIP": f"10.0.{i % 250}.{i // 250 + 1}",
            "protocol": "TCP",
        }
        for i in range(n)
    ]
    return {"name": "main", "image": "i", "ports": ports}


def _named(i: int) -> Spec:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"node-{i}"]}]}


def _named_nodes(n: int) -> Spec:
    terms = {"nodeSelectorTerms": [_named(i) for i in range(n)]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _volumes(disk: Callable[[int], Spec]) -> Callable[[int], Spec]:
    return lambda n: {"volumes": [{"name": f"v{i}", **disk(i)} for i in range(n)]}


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
    "named nodes": _named_nodes,
    "host ports": lambda n: {"containers": [_container(n)]},
    "disks": _volumes(lambda i: {"gcePersistentDisk": {"pdName": f"disk-{i}"}}),
    "images of one pool": _volumes(lambda i: {"rbd": {"monitors": [f"m{i}"], "image": "a", "pool": "b"}}),
    "tolerations": lambda n: {"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(n)]},
}
