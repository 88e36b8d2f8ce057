"""Which nodes an autoscaler can drain: little is requested of them, and all their pods fit elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mooring.api.objects import Node, Pod
from mooring.api.resources import allocatable, pod_requests
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.simulate.engine import CoreRun

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def utilization(node: Node, pods: Sequence[Pod]) -> float:
    """The larger of the requested shares of CPU and memory."""
    amounts = [pod_requests(pod, use_status=False, pod_level=True, non_missing=False) for pod in pods]
    shares = [
        sum(each.get(name, 0) for each in amounts) / capacity
        for name, capacity in allocatable(node).items()
        if name in ("cpu", "memory") and capacity
    ]
    return max(shares, default=0.0)


def is_movable(run: CoreRun, pod: Pod) -> bool:
    """Return whether a pod may be evicted: a controller replaces it, and no annotation forbids it."""
    annotations, template = pod.metadata.annotations, run.template_of(pod.uid)
    if annotations.get(SAFE) == "false" or annotations.get(DO_NOT_DISRUPT) == "true":
        return False
    return template is not None and template.replaced


def fit_elsewhere(run: CoreRun, node: Node, pods: Sequence[Pod], scheduler: Callable[[], Scheduler]) -> bool:
    """Return whether the other nodes have room for the pods of a node, by a scheduler of the policy."""
    cluster = MemoryCluster(scheduler())
    for other in run.nodes.present():
        if other.name != node.name:
            cluster.apply(other)
    moving = {pod.uid for pod in pods}
    for pod in run.bound_pods():
        if pod.uid not in moving:
            cluster.apply(pod)
    for pod in pods:
        cluster.apply(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="")))
    cluster.run()
    moved = [cluster.pods.get(uid) for uid in moving]
    all_there = len(cluster.pods) == len(run.bound_pods())  # none was preempted
    return all_there and all(pod is not None and pod.spec.node_name for pod in moved)
