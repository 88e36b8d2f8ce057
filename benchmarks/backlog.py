"""The nodes and pods that are created on an API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import pod_groups, workloads
from benchmarks.api_server import LABELS, NAMESPACE

ROWS: dict[str, Callable[[int], dict[str, Any]]] = {
    "plain": workloads.one_shape,
    "spread-hard": workloads.spread("DoNotSchedule"),
    "spread-soft": workloads.spread("ScheduleAnyway"),
    "affinity": workloads.affinity("podAffinity", "topology.kubernetes.io/region"),
    "anti-affinity": workloads.affinity("podAntiAffinity", "kubernetes.io/hostname"),
    "preferred-affinity": workloads.affinity("podAffinity", "kubernetes.io/hostname", preferred=True),
    "claim-template": workloads.claiming,
    "claim-selectors": workloads.claiming,
    **{row: pod_groups.in_gangs_of(members) for row, members in pod_groups.MEMBERS.items()},
}


def node(i: int) -> dict[str, Any]:
    name = f"node-{i:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{i % workloads.ZONES}",
        "topology.kubernetes.io/region": "r1",
    }
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | LABELS},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def pod(row: str, scheduler: str, i: int) -> dict[str, Any]:
    obj = ROWS[row](i)
    obj["metadata"] |= {"name": f"{scheduler}-{i:06d}", "namespace": NAMESPACE}
    obj["spec"] |= {"schedulerName": scheduler}
    return obj


def backlog_size(row: str, nodes: int, pods: int) -> int:
    """How many pods to create: of those that bear no other on their node, no more than there are nodes."""
    return min(nodes, pods) if row == "anti-affinity" else pods
