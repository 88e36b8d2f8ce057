"""The pods that stand in another one's way, by name."""

from __future__ import annotations

from mooring.api.workloads import Namespace
from mooring.core.scheduler import Scheduler
from mooring.framework.nodes import NodeInfo
from mooring.framework.pod import PodInfo, Shape


def port_holders(node: NodeInfo, port: int) -> list[str]:
    """The pods on a node that have a host port."""
    return [pod.key for pod in node.pods if any(held == port for _, _, held in pod.shape.host_ports)]


def anti_affinity_of_others(scheduler: Scheduler, pod: PodInfo) -> list[str]:
    """The pods on nodes whose required anti-affinity speaks of this one."""
    namespace = scheduler.store.get(Namespace, pod.namespace)
    labels = {} if namespace is None else namespace.metadata.labels
    objecting: dict[Shape, bool] = {}
    blockers = []
    for other in scheduler.cluster.pods():
        shape = other.shape
        if shape not in objecting:
            objecting[shape] = any(
                term.anti and term.required and term.selects(pod.namespace, labels, pod.labels)
                for term in shape.affinity_terms
            )
        if objecting[shape]:
            blockers.append(other.key)
    return blockers
