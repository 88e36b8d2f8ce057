"""Nodes and pods in columns: what the map of the cluster is drawn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mooring.api.times import format_time
from mooring.core.scheduler import Scheduler
from mooring.framework.pod import Shape
from mooring.runtime.amounts import ALLOWED_PODS, pods_line
from mooring.state.node_info import NodeRow
from mooring.web.records import ClusterRecord, Counts, Labels, NodeColumns, PodKind

NOT_READY, CORDONED, TAINTED, FAILED = 1, 2, 4, 8
FAILED_ANNOTATION = "mooring/failed"
MOST_LABELS = 64  # those that most nodes have: a node may have thousands of its own
MOST_VALUES = 200  # of a label; one with more does not group nodes
HOSTNAME = "kubernetes.io/hostname"


def cluster_record(scheduler: Scheduler) -> ClusterRecord:
    rows = range(len(scheduler.cluster.table))
    return ClusterRecord(
        as_of=format_time(scheduler.clock()), nodes=node_columns(scheduler, rows), counts=counts(scheduler)
    )


def counts(scheduler: Scheduler) -> Counts:
    held = len(scheduler.waiting)
    binding = max(0, scheduler.cluster.assumed_count() - held)
    return Counts(placed=len(scheduler.cluster), **scheduler.queue.counts(), permit=held, binding=binding)


def node_columns(scheduler: Scheduler, rows: Sequence[int]) -> NodeColumns:
    """Return these rows of the node table, with their pods."""
    table = scheduler.cluster.table
    nodes = [table.nodes[row] for row in rows]
    data = table.amounts.data[:, list(rows)]
    count = pods_line(len(data))
    kinds = _Kinds(table.resources)
    pods = [kinds.index(pod.shape) for node in nodes for pod in node.pods]
    return NodeColumns(
        resources=list(table.resources),
        names=[node.name for node in nodes],
        flags=[flags(node) for node in nodes],
        allocatable=data[ALLOWED_PODS + 1 : count].tolist(),
        requested=data[count + 1 : -2].tolist(),
        pods_allowed=data[ALLOWED_PODS].tolist(),
        pod_counts=data[count].tolist(),
        labels=_labels(nodes),
        kinds=kinds.records,
        pods=pods,
    )


def flags(node: NodeRow) -> int:
    own = [taint for taint in node.taints if not taint.key.startswith("node.kubernetes.io/")]
    return (
        NOT_READY * (not is_ready(node))
        | CORDONED * node.unschedulable
        | TAINTED * bool(own)
        | FAILED * (node.annotations.get(FAILED_ANNOTATION) == "true")
    )


def is_ready(node: NodeRow) -> bool:
    """Return whether a node is Ready; one without that condition, as in a manifest, counts as ready."""
    condition = next((each for each in node.node.status.conditions if each.type == "Ready"), None)
    return condition is None or condition.status == "True"


def _labels(nodes: Sequence[NodeRow]) -> dict[str, Labels]:
    """Return the labels that can group nodes."""
    frequency = Counter(key for node in nodes for key in node.labels if key != HOSTNAME)
    columns = {}
    for key, _ in frequency.most_common(MOST_LABELS):
        values: dict[str, int] = {}
        of = []
        for node in nodes:
            value = node.labels.get(key)
            of.append(-1 if value is None else values.setdefault(value, len(values)))
        if len(values) <= MOST_VALUES:
            columns[key] = Labels(values=list(values), of=of)
    return columns


class _Kinds:
    """Pods that look alike on the map share one record."""

    def __init__(self, resources: Sequence[str]) -> None:
        self.records: list[PodKind] = []
        self._resources = resources
        self._by_shape: dict[Shape, int] = {}
        self._by_value: dict[tuple[str, str, int, tuple[int, ...]], int] = {}

    def index(self, shape: Shape) -> int:
        found = self._by_shape.get(shape)
        if found is None:
            used = shape.used
            amounts = tuple(used.get(name, 0) for name in self._resources)
            value = (shape.namespace, owner(shape), shape.priority, amounts)
            found = self._by_value.setdefault(value, len(self.records))
            if found == len(self.records):
                self.records.append(
                    PodKind(namespace=value[0], owner=value[1], priority=value[2], amounts=list(amounts))
                )
            self._by_shape[shape] = found
        return found


def owner(shape: Shape) -> str:
    """Return the workload of a pod: the Deployment of a ReplicaSet, or the controller itself."""
    controller = shape.controller
    if controller is None:
        return ""
    generation = shape.labels.get("pod-template-hash", "")
    if controller.kind == "ReplicaSet" and generation and controller.name.endswith(f"-{generation}"):
        return f"Deployment/{controller.name.removesuffix(f'-{generation}')}"
    return f"{controller.kind}/{controller.name}"
