"""One node and the pods on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mooring.api.objects import Node, Taint
from mooring.framework.pod import PodInfo, Resources
from mooring.runtime.amounts import ALLOWED_PODS, NONZERO, pods_line, wrap_int64
from mooring.state.sparse import Amount

if TYPE_CHECKING:
    from mooring.state.table import NodeTable


class BaseNode:
    """What a real and a hypothetical node share: everything that follows from the Node object."""

    __slots__ = ("_table", "node", "row", "sparse")

    def __init__(self, table: NodeTable, row: int, node: Node, sparse: dict[str, Amount]) -> None:
        self._table = table
        self.row = row
        self.node = node
        self.sparse = sparse  # the amounts of resources that have no line in the table

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
    def resources(self) -> Sequence[str]:
        return self._table.resources

    @property
    def amounts(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def pod_count(self) -> int:
        amounts = self.amounts
        return amounts[pods_line(len(amounts))]

    @property
    def allowed_pods(self) -> int:
        return self.amounts[ALLOWED_PODS]

    @property
    def nonzero_requested(self) -> tuple[int, ...]:
        return self.amounts[NONZERO]

    @property
    def requested_amounts(self) -> tuple[int, ...]:
        amounts = self.amounts
        return amounts[pods_line(len(amounts)) + 1 : -2]

    @property
    def allocatable_amounts(self) -> tuple[int, ...]:
        amounts = self.amounts
        return amounts[ALLOWED_PODS + 1 : pods_line(len(amounts))]

    @property
    def allocatable(self) -> Resources:
        sparse = {name: amount.allocatable for name, amount in self.sparse.items()}
        return self._named(self.allocatable_amounts, sparse)

    @property
    def requested(self) -> Resources:
        sparse = {name: amount.requested for name, amount in self.sparse.items()}
        return self._named(self.requested_amounts, sparse)

    @property
    def free(self) -> Resources:
        pairs = zip(self.allocatable_amounts, self.requested_amounts, strict=True)
        free = [wrap_int64(allocatable - requested) for allocatable, requested in pairs]
        sparse = {name: amount.allocatable - amount.requested for name, amount in self.sparse.items()}
        return self._named(free, sparse)

    def _named(self, amounts: Sequence[int], sparse: Mapping[str, int]) -> Resources:
        named = Resources({n: v for n, v in zip(self._table.resources, amounts, strict=True) if v})
        named.update((name, wrap_int64(amount)) for name, amount in sparse.items() if amount)
        return named

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class NodeRow(BaseNode):
    """A node of the table."""

    __slots__ = ("_amounts", "_by_uid")

    def __init__(self, table: NodeTable, row: int, node: Node) -> None:
        super().__init__(table, row, node, {})
        self._by_uid: dict[str, PodInfo] = {}
        self._amounts: tuple[int, ...] = ()  # until the node or its pods change

    def set_node(self, node: Node) -> None:
        self.node = node
        self._amounts = ()

    @property
    def amounts(self) -> tuple[int, ...]:
        amounts, lines = self._amounts, self._table.amounts.data
        if len(amounts) != len(lines):
            amounts = self._amounts = tuple(lines[:, self.row].tolist())
        return amounts

    def amounts_changed(self) -> None:
        self._amounts = ()

    @property
    def pods(self) -> Sequence[PodInfo]:
        return list(self._by_uid.values())

    def put(self, pod: PodInfo) -> None:
        self._by_uid[pod.uid] = pod
        self._amounts = ()

    def replace(self, pod: PodInfo) -> None:
        """Take a pod's newer version, which counts as the old one did."""
        self._by_uid[pod.uid] = pod

    def drop(self, pod: PodInfo) -> None:
        del self._by_uid[pod.uid]
        self._amounts = ()


class HypotheticalNode(BaseNode):
    """A node with other pods than it has: for asking "what if"."""

    __slots__ = ("_amounts", "pods")

    def __init__(
        self, real: NodeRow, pods: Sequence[PodInfo], amounts: tuple[int, ...], sparse: dict[str, Amount]
    ) -> None:
        super().__init__(real._table, real.row, real.node, sparse)
        self.pods = pods
        self._amounts = amounts

    @property
    def amounts(self) -> tuple[int, ...]:
        return self._amounts
