"""Pods as the history shows them, read without the code that is tested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Tree = dict[str, Any]

FINISHED = ("Succeeded", "Failed")
_SUFFIXES = {"m": 0.001, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def amount(text: str | int) -> float:
    """Return the value of a quantity."""
    digits = str(text).rstrip("mkMGKi")
    return round(float(digits) * _SUFFIXES[str(text)[len(digits) :]], 3)


def requests(tree: Tree) -> dict[str, float]:
    """Return what a pod takes of its node. While it is resized, this is the most of what it asks for, what is
    allocated to it and what it has."""
    spec, given = tree["spec"], _given(tree) if tree["spec"].get("nodeName") else {}
    total: dict[str, float] = {"pods": 1.0}
    for container in spec.get("containers", ()):
        own = _amounts((container.get("resources") or {}).get("requests"))
        if (status := given.get(container["name"])) is not None:
            own = status if _is_infeasible(tree) else _most(own, status)
        for name, value in own.items():
            total[name] = round(total.get(name, 0.0) + value, 3)
    return total


def _given(tree: Tree) -> dict[str, dict[str, float]]:
    """Return what containers have or what is allocated to them, whichever is more."""
    return {
        one["name"]: _most(
            _amounts(one["resources"].get("requests")), _amounts(one.get("allocatedResources"))
        )
        for one in (tree.get("status") or {}).get("containerStatuses") or ()
        if one.get("resources") is not None
    }


def _allocated_cpu(tree: Tree) -> float:
    statuses = (tree.get("status") or {}).get("containerStatuses") or ()
    return sum(_amounts(one.get("allocatedResources")).get("cpu", 0.0) for one in statuses)


def _is_infeasible(tree: Tree) -> bool:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "PodResizePending" and c.get("reason") == "Infeasible" for c in conditions)


def _amounts(resources: Mapping[str, str] | None) -> dict[str, float]:
    return {name: amount(text) for name, text in (resources or {}).items()}


def _most(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}


def host_ports(spec: Mapping[str, Any]) -> set[tuple[str, int]]:
    return {
        (port.get("protocol", "TCP"), port["hostPort"])
        for container in spec.get("containers", ())
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


class Pod:
    """A pod as the history shows it."""

    def __init__(self, tree: Tree) -> None:
        metadata, spec = tree["metadata"], tree["spec"]
        status = tree.get("status") or {}
        self.tree = tree
        self.key = f"{metadata['namespace']}/{metadata['name']}"
        self.uid: str = metadata["uid"]
        self.labels: dict[str, str] = metadata.get("labels") or {}
        self.spec: Tree = spec
        self.node: str = spec.get("nodeName", "")
        self.priority: int = spec.get("priority") or 0
        self.gated = bool(spec.get("schedulingGates"))
        self.terminating = "deletionTimestamp" in metadata
        self.finished = status.get("phase") in FINISHED
        self.phase: str = status.get("phase", "")
        self.conditions = {c["type"]: c for c in status.get("conditions") or ()}
        self.ready = self.phase == "Running" and self.conditions.get("Ready", {}).get("status") == "True"
        self.requests = requests(tree)
        self.allocated = _allocated_cpu(tree)
        self.ports = host_ports(spec)

    @property
    def is_over(self) -> bool:
        return self.finished or self.terminating
