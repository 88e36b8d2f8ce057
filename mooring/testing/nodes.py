"""make_node: a Node as a cluster would have it, with only what a test cares about spelled out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.api.meta import ObjectMeta, Quantity
from mooring.api.objects import ContainerImage, Node, NodeCondition, NodeSpec, NodeStatus, Taint
from mooring.testing.selectors import taint
from mooring.testing.served import each_of, served

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def make_node(
    name: str = "node",
    *,
    cpu: Quantity = "4",
    memory: Quantity = "16Gi",
    pods: Quantity = 110,
    resources: Mapping[str, Quantity] | None = None,
    allocatable: Mapping[str, Quantity] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    zone: str = "",
    region: str = "",
    taints: str | Iterable[str | Taint] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    ready: bool = True,
    declared_features: str | Iterable[str] = (),
) -> Node:
    """Return a node, with the hostname label that the kubelet sets.

    `resources` are extended ones in addition to cpu, memory and pods; `allocatable` replaces them all.
    `taints` are written as for `kubectl taint` ("dedicated=gpu:NoSchedule"), `images` are sizes in bytes by
    name.
    """
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    node = Node(
        api_version="v1",
        kind="Node",
        metadata=ObjectMeta(
            name=name,
            labels={HOSTNAME: name, **_topology(zone, region), **(labels or {})},
            annotations=dict(annotations or {}),
        ),
        spec=NodeSpec(unschedulable=unschedulable, taints=[taint(each) for each in each_of(taints)]),
        status=NodeStatus(
            allocatable=dict(amounts if allocatable is None else allocatable),
            capacity=dict(amounts if allocatable is None else allocatable),
            conditions=[NodeCondition(type="Ready", status="True" if ready else "False")],
            images=[ContainerImage(names=[n], size_bytes=size) for n, size in (images or {}).items()],
            declared_features=each_of(declared_features),
        ),
    )
    return served(node, namespaced=False)


def _topology(zone: str, region: str) -> dict[str, str]:
    return {key: value for key, value in ((ZONE, zone), (REGION, region)) if value}
