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


def requests(spec: Mapping[str, Any]) -> dict[str, float]:
    """Return what a pod takes of its node."""
    total: dict[str, float] = {"pods": 1.0}
    for container in spec.get("containers", ()):
        for name, text in (container.get("resources", {}).get("requests") or {}).items():
            total[name] = round(total.get(name, 0.0) + amount(text), 3)
    return total


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
        self.requests = requests(spec)
        self.ports = host_ports(spec)

    @property
    def is_over(self) -> bool:
        return self.finished or self.terminating
