"""Clusters, nodes and gangs for tests of group scheduling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mooring.api.groups import PodGroup
from mooring.api.meta import Condition
from mooring.core.effects import Effect, Evict
from mooring.testing import Cluster, make_cluster
from mooring.testing.scheduler_cluster import SchedulerCluster

GPU = "nvidia.com/gpu"
GATES = ("GenericWorkload", "GangScheduling")
ALL_GATES = (*GATES, "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption")
GROUP_WAITS = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def cluster_with(
    *nodes: dict[str, Any],
    gates: Sequence[str] = GATES,
    gang_args: dict[str, Any] | None = None,
    **options: Any,
) -> SchedulerCluster:
    """A cluster of these nodes whose scheduler has the gates on, with these arguments of GangScheduling."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(gates, True),
        "profiles": [{"pluginConfig": [{"name": "GangScheduling", "args": gang_args or {}}]}],
    }
    cluster = make_cluster(config=config, **options)
    assert isinstance(cluster, SchedulerCluster)
    cluster.apply(*nodes)
    return cluster


def gpu_node(name: str, gpus: int = 8, **labels: str) -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def gpu_nodes(count: int, gpus: int = 8) -> list[dict[str, Any]]:
    return [gpu_node(f"n{i}", gpus) for i in range(count)]


def pod_group(name: str, min_count: int | None, **spec: Any) -> dict[str, Any]:
    policy: dict[str, Any] = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"group-{name}"},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def gpu_pod(name: str, group: str = "", gpus: int = 8, priority: int = 0, **spec: Any) -> dict[str, Any]:
    amounts = {GPU: str(gpus)}
    member = {"schedulingGroup": {"podGroupName": group}} if group else {}
    container = {"name": "main", "image": "main", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"pod-{name}"},
        "spec": {"containers": [container], "priority": priority, **member, **spec},
    }


def members(group: str, count: int, start: int = 0, **options: Any) -> list[dict[str, Any]]:
    return [gpu_pod(f"{group}-{i}", group, **options) for i in range(start, start + count)]


def gang(name: str, count: int, min_count: int | None = None, **options: Any) -> list[dict[str, Any]]:
    """A PodGroup and its pods."""
    return [pod_group(name, count if min_count is None else min_count), *members(name, count, **options)]


def bound(cluster: Cluster, group: str = "") -> dict[str, str]:
    """The node of each bound pod."""
    pods = [pod for pod in cluster.pods() if pod.spec.node_name and pod.name.startswith(group)]
    return {pod.name: pod.spec.node_name for pod in pods}


def condition(cluster: SchedulerCluster, group: str) -> tuple[str, str, str]:
    """Status, reason and message of PodGroupScheduled."""
    stored = cluster.scheduler.store.get(PodGroup, group, "default")
    assert stored is not None
    only: Condition = next(c for c in stored.status.conditions if c.type == "PodGroupScheduled")
    return only.status, only.reason, only.message


def message(cluster: Cluster, pod: str) -> str:
    """Why a pod is not scheduled."""
    found = next(each for each in cluster.pods() if each.name == pod)
    return next(c.message for c in found.status.conditions if c.type == "PodScheduled")


def coscheduling_cluster(*nodes: dict[str, Any], gates: Sequence[str] = (), **args: Any) -> SchedulerCluster:
    """A cluster whose only profile is the one that scheduler-plugins' manifests configure."""
    plugins = {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    }
    profile: dict[str, Any] = {"schedulerName": "default-scheduler", "plugins": plugins}
    if args:
        profile["pluginConfig"] = [{"name": "Coscheduling", "args": args}]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(gates, True),
        "profiles": [profile],
    }
    cluster = make_cluster(config=config)
    assert isinstance(cluster, SchedulerCluster)
    cluster.apply(*nodes)
    return cluster


def labelled_group(name: str, min_member: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"labelled-{name}"},
        "spec": {"minMember": min_member, **spec},
    }


def labelled_pods(group: str, count: int, start: int = 0, **options: Any) -> list[dict[str, Any]]:
    pods = [gpu_pod(f"{group}-{i}", **options) for i in range(start, start + count)]
    for pod in pods:
        pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
    return pods


def evict_slowly(cluster: SchedulerCluster) -> list[str]:
    """Have victims terminate until the test deletes them; their names are added to the list returned."""
    memory, evicted = cluster._memory, []
    carry_out = memory.carry_out

    def terminating(effects: Iterable[Effect]) -> None:
        others = []
        for effect in effects:
            if not isinstance(effect, Evict):
                others.append(effect)
                continue
            evicted.append(effect.victim.name)
            pod = memory.pods[effect.victim.uid]
            metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:05:00Z")
            status = msgspec.structs.replace(
                pod.status, conditions=[*pod.status.conditions, effect.condition]
            )
            memory.apply(msgspec.structs.replace(pod, metadata=metadata, status=status))
        carry_out(others)

    memory.carry_out = terminating  # type: ignore[method-assign]
    return evicted


def nominated(cluster: Cluster, group: str) -> dict[str, str]:
    """The node that is kept for each pod."""
    pods = [pod for pod in cluster.pods() if pod.name.startswith(group)]
    return {pod.name: pod.status.nominated_node_name for pod in pods if pod.status.nominated_node_name}
