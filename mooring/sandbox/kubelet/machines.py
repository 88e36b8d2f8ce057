"""What a fake node says of itself: the Node object that a kubelet would register."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from mooring.api.meta import Tree
from mooring.api.objects import Node

CAPACITY = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
REGION = "local"
ZONES = ("local-a", "local-b", "local-c")
KUBELET = "v1.36.0"
DECLARED_FEATURES = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
"""What a kubelet of this version declares: pods that need a feature run only on nodes that have it."""
FEATURES = {"supplementalGroupsPolicy": True}
"""What the container runtime implements."""
FAILED = "mooring/failed"
"""The annotation that makes a node fail while it is "true"."""

_HEALTH = (  # type, status, reason, message, in kubelet's words and order
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def make_nodes(count: int) -> list[Tree]:
    """So many Node objects, spread over three zones: node-1, or node-001 where there are hundreds, so that
    they sort as they count."""
    return [named_node(name, zone=ZONES[at % len(ZONES)]) for at, name in enumerate(numbered("node", count))]


def numbered(name: str, count: int) -> Iterator[str]:
    """Names that sort as they count."""
    width = len(str(count))
    return (f"{name}-{at:0{width}d}" for at in range(1, count + 1))


def named_node(name: str, *, zone: str = "", instance_type: str = "fake") -> Tree:
    """A Node object with the labels that kubelets and cloud providers put on theirs."""
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance_type,
    }
    if zone:
        labels |= {"topology.kubernetes.io/region": REGION, "topology.kubernetes.io/zone": zone}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"capacity": dict(CAPACITY)},
    }


def registered(node: Tree, address: str, now: str) -> Tree:
    """The Node as it is registered: what it leaves out of its status is filled in, and it is Ready."""
    name, status = node["metadata"]["name"], node.get("status") or {}
    capacity = status.get("capacity") or status.get("allocatable") or CAPACITY
    addresses = status.get("addresses") or []
    if not any(one.get("type") == "InternalIP" for one in addresses):
        addresses = [*addresses, {"type": "InternalIP", "address": address}]
    if not any(one.get("type") == "Hostname" for one in addresses):
        addresses = [*addresses, {"type": "Hostname", "address": name}]
    conditions = [one for one in status.get("conditions") or () if one.get("type") not in _HEALTHY_TYPES]
    completed = {
        **status,
        "capacity": capacity,
        "allocatable": status.get("allocatable") or capacity,
        "addresses": addresses,
        "conditions": [*conditions, *healthy(now)],
        "nodeInfo": {**node_info(name), **(status.get("nodeInfo") or {})},
        "declaredFeatures": status.get("declaredFeatures") or list(DECLARED_FEATURES),
        "features": {**FEATURES, **(status.get("features") or {})},
    }
    return {**node, "status": completed}


_HEALTHY_TYPES = frozenset(type for type, *_ in _HEALTH)


def completion(node: Node, address: str) -> Tree:
    """Return what is missing in the status of a Node created by another client, as a strategic merge
    patch."""
    status: Tree = {}
    if not node.status.capacity:
        status["capacity"] = node.status.allocatable or CAPACITY
    if not node.status.allocatable:
        status["allocatable"] = node.status.capacity or CAPACITY
    elif node.status.capacity and (extended := _changed_extended_resources(node)):
        status["allocatable"] = extended
    if not internal_ip(node):
        status["addresses"] = [{"type": "InternalIP", "address": address}]
        status["nodeInfo"] = node_info(node.name)
        status["features"] = FEATURES
        if not node.status.declared_features:
            status["declaredFeatures"] = list(DECLARED_FEATURES)
    return status


def _changed_extended_resources(node: Node) -> Tree:
    """Return the extended resources that `capacity` has and `allocatable` lacks, and as None those that only
    `allocatable` has: clients advertise a resource in capacity, and the kubelet follows."""
    capacity, allocatable = node.status.capacity, node.status.allocatable
    added = {name: amount for name, amount in capacity.items() if "/" in name and name not in allocatable}
    return added | {name: None for name in allocatable if "/" in name and name not in capacity}


def healthy(now: str, node: Node | None = None) -> list[Tree]:
    """Return the conditions of a healthy node; unchanged ones keep their transition times."""
    since = {} if node is None else {one.type: one for one in node.status.conditions}
    conditions = []
    for type, status, reason, message in _HEALTH:
        current = since.get(type)
        same = current is not None and current.status == status
        conditions.append(
            {
                "type": type,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": (current.last_transition_time if current and same else None) or now,
            }
        )
    return conditions


def node_info(name: str) -> Tree:
    machine = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return {
        "architecture": "amd64",
        "bootID": str(machine),
        "containerRuntimeVersion": "fake://1.0",
        "kernelVersion": "6.1.0",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET,
        "machineID": machine.hex,
        "operatingSystem": "linux",
        "osImage": "Mooring fake node",
        "systemUUID": str(machine),
    }


def internal_ip(node: Node) -> str:
    return next((one.address for one in node.status.addresses if one.type == "InternalIP"), "")


def has_failed(node: Node) -> bool:
    """Whether a node is to behave as one whose machine is gone."""
    return node.metadata.annotations.get(FAILED) == "true"
