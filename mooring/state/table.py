"""The node table: nodes as rows of NumPy columns, and the pods on them.

Rows are dense: the table's nodes are rows 0..len-1, and removing one moves the last row into its place.
Every change is written to one of two logs (the Node object changed; the pods on it changed), from which
readers learn the rows they must look at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api import resources as amounts
from mooring.api.objects import Node, Taint
from mooring.framework.affinity import AffinityTerm
from mooring.framework.nodes import BoolArray, IntArray, PodPredicate
from mooring.framework.pod import PodInfo, Shape
from mooring.runtime.amounts import ALLOWED_PODS, NONZERO, lines_for, pods_line
from mooring.state.columns import ChangeLog, Column
from mooring.state.counters import Counter, Counters, TableDomainSums, TableRowCounts
from mooring.state.interning import Images, InternedColumn
from mooring.state.node_info import NodeRow

BASE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


class NodeTable:
    """All nodes. Mutated by ClusterState only; read through views."""

    def __init__(self) -> None:
        self._capacity = 64
        self.resources: list[str] = list(BASE_RESOURCES)
        self.resource_index = {name: i for i, name in enumerate(self.resources)}
        capacity = self._capacity
        self.amounts = Column(capacity, np.int64, lines=lines_for(len(self.resources)))
        self.unschedulable = Column(capacity, np.bool_)
        self.taints: InternedColumn[tuple[Taint, ...]] = InternedColumn(capacity)
        self.features: InternedColumn[frozenset[str]] = InternedColumn(capacity)
        self._labels: dict[str, InternedColumn[str]] = {}  # by key, of those that have been asked for
        self._nodes_with: dict[str, int] = {}  # label key → how many nodes have it
        self._no_label: InternedColumn[str] = InternedColumn(capacity)
        self.images = Images()
        self.counters = Counters()
        self.nodes: list[NodeRow] = []
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.node_log = ChangeLog()
        self.pod_log = ChangeLog()
        self.node_version = 0
        self.carried_terms: list[AffinityTerm] = []
        self._carried: set[AffinityTerm] = set()
        self._compact_terms_at = 1024
        self.claim_users: dict[str, int] = {}
        self.priorities: dict[int, int] = {}  # of the pods on nodes → how many have it

    def __len__(self) -> int:
        return len(self.nodes)

    # ---- nodes

    def add_node(self, node: Node) -> NodeRow:
        allocatable = amounts.allocatable(node)  # a malformed node is refused before anything changes
        row = len(self.nodes)
        if row == self._capacity:
            self._grow(2 * self._capacity)
        info = NodeRow(self, row, node)
        self.nodes.append(info)
        self.names.append(node.name)
        self.row_of[node.name] = row
        self._write(info, allocatable)
        return info

    def update_node(self, info: NodeRow, node: Node) -> None:
        allocatable = amounts.allocatable(node)
        self._forget_content(info)
        info.set_node(node)
        self._write(info, allocatable)

    def remove_node(self, info: NodeRow) -> None:
        """Forget a node whose pods were removed before."""
        self._forget_content(info)
        row, last = info.row, len(self.nodes) - 1
        columns = self._columns()
        if row != last:
            for column in columns:
                column.move(last, row)
            moved = self.nodes[last]
            moved.row = row
            self.nodes[row], self.names[row] = moved, moved.name
            self.row_of[moved.name] = row
            self.counters.move(last, row)
        for column in columns:
            column.clear(last)
        self.nodes.pop()
        self.names.pop()
        del self.row_of[info.name]
        self._compact()
        self._node_changed(row)

    def _write(self, info: NodeRow, allocatable: dict[str, int]) -> None:
        node, row = info.node, info.row
        self._add_resources(allocatable)
        allocatable_line = self.amounts.data[: pods_line(len(self.amounts.data)), row]
        allocatable_line[:] = 0
        # An API server stores no negative amounts; from a file they count as none.
        allocatable_line[ALLOWED_PODS] = max(0, allocatable.get("pods", 0))
        for name, amount in allocatable.items():
            line = self.resource_index.get(name)
            if line is not None:
                allocatable_line[1 + line] = max(0, amount)
        self.unschedulable.data[row] = node.spec.unschedulable
        self.taints.set(row, tuple(map(_untimed, node.spec.taints)))
        self.features.set(row, frozenset(node.status.declared_features))
        labels = node.metadata.labels
        for key in labels:
            self._nodes_with[key] = self._nodes_with.get(key, 0) + 1
        for key, column in self._labels.items():
            column.set(row, labels.get(key))
        self.images.add(info)
        self._compact()
        self._node_changed(row)

    def _forget_content(self, info: NodeRow) -> None:
        """Undo what `_write` counted of the Node object."""
        self.images.remove(info)
        for key in info.node.metadata.labels:
            self._nodes_with[key] -= 1
            if not self._nodes_with[key]:
                del self._nodes_with[key]
                self._labels.pop(key, None)

    def _compact(self) -> None:
        columns: Iterable[InternedColumn[Any]] = (self.taints, self.features, *self._labels.values())
        for column in columns:
            column.compact(len(self.nodes))

    def _node_changed(self, row: int) -> None:
        self.node_version += 1
        self.node_log.add(row)

    def label(self, key: str) -> InternedColumn[str]:
        """Return the column of one label, which is made on first use.

        Labels that no node has share one column, since pods may name any number of them.
        """
        column = self._labels.get(key)
        if column is None:
            if key not in self._nodes_with:
                return self._no_label
            column = self._labels[key] = InternedColumn(self._capacity)
            for info in self.nodes:
                column.set(info.row, info.node.metadata.labels.get(key))
        return column

    # ---- pods

    def add_pod(self, info: NodeRow, pod: PodInfo) -> None:
        info.put(pod)
        self._count(info.row, pod, 1)

    def remove_pod(self, info: NodeRow, pod: PodInfo) -> None:
        info.drop(pod)
        self._count(info.row, pod, -1)

    def replace_pod(self, info: NodeRow, old: PodInfo, new: PodInfo) -> None:
        """A newer version of a pod on a node; usually it takes what it took."""
        before, after = old.shape, new.shape
        if old.terminating != new.terminating or not before.takes_as_much_as(after):
            self.remove_pod(info, old)
            self.add_pod(info, new)
            return
        info.replace(new)
        if before is not after:  # other labels: with its node, a pod gets those of the topology
            self.counters.replace(before, after, info.row, new.terminating)
            self._count_priority(before.priority, -1)
            self._count_priority(after.priority, 1)
        if before is not after or old.pod.status.start_time != new.pod.status.start_time:
            self.pod_log.add(info.row)

    def _count(self, row: int, pod: PodInfo, sign: int) -> None:
        shape = pod.shape
        vector = self.vector(shape)
        amounts = self.amounts.data[:, row]
        if sign > 0:
            amounts += vector
        else:
            amounts -= vector
        self.counters.add(shape, row, sign, pod.terminating)
        if shape.affinity_terms and sign > 0:
            if len(self._carried) >= self._compact_terms_at:
                self._compact_terms()
            self.carry(shape)
        for claim in shape.claims:
            users = self.claim_users.get(claim, 0) + sign
            if users:
                self.claim_users[claim] = users
            else:
                self.claim_users.pop(claim, None)
        self._count_priority(shape.priority, sign)
        self.pod_log.add(row)

    def add_amounts(self, rows: npt.NDArray[np.intp], taken: IntArray) -> None:
        """Add to what is taken on some rows, one column of `taken` each."""
        self.amounts.data[:, rows] += taken
        for row in rows.tolist():
            self.nodes[row].amounts_changed()
            self.pod_log.add(row)

    def _count_priority(self, priority: int, sign: int) -> None:
        pods = self.priorities.get(priority, 0) + sign
        if pods:
            self.priorities[priority] = pods
        else:
            del self.priorities[priority]

    def carry(self, shape: Shape) -> None:
        """Take note of the affinity terms of a pod that is on a node, or is supposed to be."""
        for term in shape.affinity_terms:
            if term not in self._carried:
                self._carried.add(term)
                self.carried_terms.append(term)

    def _compact_terms(self) -> None:
        """Drop the terms of pods that are gone. Readers see another list, and start again."""
        shapes = (*self.counters.running, *self.counters.terminating)
        self.carried_terms = list(dict.fromkeys(term for shape in shapes for term in shape.affinity_terms))
        self._carried = set(self.carried_terms)
        self._compact_terms_at = 2 * len(self._carried) + 1024

    def vector(self, shape: Shape) -> IntArray:
        """What one pod of a shape adds to a node's amounts."""
        vector: IntArray | None = shape.derived.get(self)
        if vector is None or len(vector) != len(self.amounts.data):
            self._add_resources(shape.used)
            vector = np.zeros(len(self.amounts.data), np.int64)
            taken = vector[pods_line(len(vector)) :]
            taken[0] = 1
            taken[NONZERO] = shape.nonzero_used
            for name, amount in shape.used.items():
                line = self.resource_index.get(name)
                if line is not None:
                    taken[1 + line] = amount
            shape.derived[self] = vector
        return vector

    def _add_resources(self, names: Iterable[str]) -> None:
        """Add lines for the resources that have none yet, all at once."""
        added = [name for name in names if name not in self.resource_index and amounts.is_scalar(name)]
        if not added:
            return
        for name in added:
            self.resource_index[name] = len(self.resources)
            self.resources.append(name)
        half, count = pods_line(len(self.amounts.data)), len(added)
        self.amounts.insert_lines((*[half] * count, *[2 * half] * count))

    # ---- counts

    def counter(self, predicate: PodPredicate) -> Counter:
        return self.counters.get(predicate, self._capacity)

    def row_counts(self, predicate: PodPredicate) -> TableRowCounts:
        return TableRowCounts(partial(self.counter, predicate), len(self))

    def domain_sums(self, predicate: PodPredicate, key: str, eligible: BoolArray | None) -> TableDomainSums:
        column = self.label(key)
        ids: npt.NDArray[np.int32] = column.ids[: len(self)]
        return TableDomainSums(self.row_counts(predicate), ids, len(column.values), eligible)

    # ---- columns

    def _columns(self) -> Sequence[Column]:
        return [
            self.amounts,
            self.unschedulable,
            self.taints.column,
            self.features.column,
            self._no_label.column,
            *(column.column for column in self._labels.values()),
            *self.counters.columns(),
        ]

    def _grow(self, capacity: int) -> None:
        self._capacity = capacity
        for column in self._columns():
            column.grow(capacity)

    def pods(self) -> Iterator[PodInfo]:
        for info in self.nodes:
            yield from info.pods


def _untimed(taint: Taint) -> Taint:
    """The taint without its time, which no plugin reads and which would make every taint a new value."""
    return taint if taint.time_added is None else msgspec.structs.replace(taint, time_added=None)
