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


def _sidecar(i: int) -> Spec:
    """One that requests a resource of its own."""
    requests = {f"example.com/r{i}": "1", "cpu": "1m"}
    resources = {"requests": requests, "limits": requests}
    return {"name": f"c{i}", "image": "i", "resources": resources, "restartPolicy": "Always"}


def _resources(n: int) -> Spec:
    requests = {f"example.com/r{i}": "1" for i in range(n)}
    resources = {"requests": requests, "limits": requests}
    return {"containers": [{"name": "main", "image": "i", "resources": resources}]}


def _many_values(n: int) -> Spec:
    """Terms about one label, with as many values."""
    values = [str(i) for i in range(n)]
    expressions = [{"key": "app", "operator": "NotIn", "values": [*values, "x"]}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}, *[_exists(i) for i in range(n)]]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _label_keys(n: int) -> Spec:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "0"}},
        "matchLabelKeys": [f"key-{i}" for i in range(n)],
    }
    return {"topologySpreadConstraints": [constraint]}


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
    "claims": _volumes(lambda i: {"persistentVolumeClaim": {"claimName": f"c{i}"}}),
    "sidecars": lambda n: {"initContainers": [_sidecar(i) for i in range(n)]},
    "resources": _resources,
    "node terms with values": _many_values,
    "match label keys": _label_keys,
    "tolerations": lambda n: {"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(n)]},
}
