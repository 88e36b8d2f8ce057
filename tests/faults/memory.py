"""Compares a scheduler's memory of the cluster with what the API server holds."""

from __future__ import annotations

from mooring.core.scheduler import Scheduler
from tests.faults.checker import Checker


def differences(scheduler: Scheduler, checker: Checker) -> list[str]:
    """Return what the scheduler knows otherwise than the history says."""
    cluster = scheduler.cluster
    found = []
    nodes, known_nodes = set(checker.nodes), set(cluster.table.row_of)
    if nodes != known_nodes:
        found.append(f"nodes {sorted(nodes ^ known_nodes)}")
    placed = {pod.uid: pod.node for pod in checker.pods.values() if pod.node and not pod.finished}
    known = {pod.uid: pod.node_name for pod in scheduler.intake.pods() if pod.node_name}
    if placed != known:
        wrong = sorted(set(placed.items()) ^ set(known.items()))[:3]
        found.append(f"pods on nodes: {wrong}")
    if assumed := cluster.assumed_count():
        found.append(f"{assumed} pods are assumed")
    pending = {
        pod.uid
        for pod in checker.pods.values()
        if not pod.node and not pod.finished and pod.spec.get("schedulerName") == "default-scheduler"
    }
    waiting = {pod.uid for pod in scheduler.intake.pods() if not pod.node_name}
    if pending != waiting:
        found.append(f"pending pods: {sorted(pending ^ waiting)[:3]}")
    for name in sorted(nodes & known_nodes):
        on_node = sorted(pod.uid for pod in checker.on(name))
        row = cluster.node(name)
        assert row is not None
        if on_node != sorted(pod.uid for pod in row.pods):
            found.append(f"node {name} has other pods")
        cpu = round(sum(pod.requests.get("cpu", 0.0) for pod in checker.on(name)) * 1000)
        if row.requested["cpu"] != cpu:
            found.append(f"node {name}: requested {row.requested['cpu']}m CPU, expected {cpu}m")
    return found
