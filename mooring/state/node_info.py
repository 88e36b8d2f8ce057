"""One node and the pods on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mooring.api.objects import Node, Taint
from mooring.framework.nodes import IntArray
from mooring.framework.pod import PodInfo, Resources

if TYPE_CHECKING:
    from mooring.state.table import NodeTable


class BaseNode:
    """What a real and a hypothetical node share: everything that follows from the Node object."""

    __slots__ = ("_table", "node", "row")

    def __init__(self, table: NodeTable, row: int, node: Node) -> None:
        self._table = table
        self.row = row
        self.node = node

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.node.metadata.annotations

    @property
    def taints(self) -> Sequence[Taint]:
        return self.node.spec.taints

    @property
    def unschedulable(self) -> bool:
        return self.node.spec.unschedulable

    @property
    def allocatable(self) -> Resources:
        return self._table.amounts(self._table.allocatable.data, self.row)

    def _requested(self) -> IntArray:
        raise NotImplementedError

    @property
    def requested(self) -> Resources:
        values = self._requested().tolist()
        return Resources({n: v for n, v in zip(self._table.resources, values, strict=True) if v})

    @property
    def free(self) -> Resources:
        values = (self._table.allocatable.data[:, self.row] - self._requested()).tolist()
        return Resources(zip(self._table.resources, values, strict=True))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class NodeRow(BaseNode):
    """A node of the table."""

    __slots__ = ("_by_uid", "_ranked")

    def __init__(self, table: NodeTable, row: int, node: Node) -> None:
        super().__init__(table, row, node)
        self._by_uid: dict[str, PodInfo] = {}
        self._ranked: list[PodInfo] | None = None

    def set_node(self, node: Node) -> None:
        self.node = node

    @property
    def pods(self) -> Sequence[PodInfo]:
        return list(self._by_uid.values())

    def put(self, pod: PodInfo) -> None:
        self._by_uid[pod.uid] = pod
        self._ranked = None

    def drop(self, pod: PodInfo) -> None:
        del self._by_uid[pod.uid]
        self._ranked = None

    def by_importance(self, now: float) -> list[PodInfo]:
        """The pods, most important first: higher priority, then longer running."""
        if self._ranked is None:
            self._ranked = sorted(self._by_uid.values(), key=lambda p: (-p.priority, p.start_time(now)))
        return self._ranked

    def _requested(self) -> IntArray:
        return self._table.usage.data[3:, self.row]


class HypotheticalNode(BaseNode):
    """A node with other pods than it has: for asking "what if"."""

    __slots__ = ("_usage", "pods")

    def __init__(self, real: NodeRow, pods: Sequence[PodInfo], usage: IntArray) -> None:
        super().__init__(real._table, real.row, real.node)
        self.pods = pods
        self._usage = usage

    def _requested(self) -> IntArray:
        return self._usage[3:]
