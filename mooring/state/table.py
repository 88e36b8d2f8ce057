"""The node table: nodes as rows of NumPy columns, and the pods on them.

Rows are dense: the table's nodes are rows 0..len-1, and removing one moves the last row into its place.
Every change is written to one of two logs (the Node object changed; the pods on it changed), from which
readers learn the rows they must look at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

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
from mooring.state.sparse import SparseAmounts

BASE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


class Footprint(NamedTuple):
    """What one pod of a shape adds to a node's amounts."""

    resources: Sequence[str]  # the table's, when this was made
    vector: IntArray
    sparse: Mapping[str, int]  # of resources without lines


class NodeTable:
    """All nodes. Mutated by ClusterState only; read through views."""

    MOST_LINES = 64  # for scalar resources: those that most nodes offer

    def __init__(self) -> None:
        self._capacity = 64
        # Those that have lines: another sequence whenever these change, which happens with a node only.
        self.resources: Sequence[str] = BASE_RESOURCES
        self.resource_index = {name: i for i, name in enumerate(self.resources)}
        self._offered: dict[str, int] = {}  # scalar resource → how many nodes name it
        self.sparse = SparseAmounts()
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
        self._offer(allocatable)
        allocatable_line = self._allocatable_line(row)
        # An API server stores no negative amounts; from a file they count as none.
        allocatable_line[ALLOWED_PODS] = max(0, allocatable.get("pods", 0))
        for name, amount in allocatable.items():
            line = self.resource_index.get(name)
            if line is not None:
                allocatable_line[1 + line] = max(0, amount)
            elif name in self._offered:
                self.sparse.offer(info, name, max(0, amount))
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
        self._allocatable_line(info.row)[:] = 0
        for name in info.node.status.allocatable:
            if name in self._offered:
                self._forget_offer(info, name)
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
        self._count(info, pod, 1)

    def remove_pod(self, info: NodeRow, pod: PodInfo) -> None:
        info.drop(pod)
        self._count(info, pod, -1)

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

    def _count(self, info: NodeRow, pod: PodInfo, sign: int) -> None:
        row, shape = info.row, pod.shape
        footprint = self.footprint(shape)
        amounts = self.amounts.data[:, row]
        if sign > 0:
            amounts += footprint.vector
        else:
            amounts -= footprint.vector
        if footprint.sparse:
            self.sparse.count(info, footprint.sparse, sign)
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

    # ---- what pods take, and the resources that have lines

    def footprint(self, shape: Shape) -> Footprint:
        """What one pod of a shape adds to a node's amounts."""
        footprint: Footprint | None = shape.derived.get(self)
        if footprint is None or footprint.resources is not self.resources:
            footprint = shape.derived[self] = self._measure(shape)
        return footprint

    def _measure(self, shape: Shape) -> Footprint:
        vector = np.zeros(len(self.amounts.data), np.int64)
        taken = vector[pods_line(len(vector)) :]
        taken[0] = 1
        taken[NONZERO] = shape.nonzero_used
        sparse = {}
        for name, amount in shape.used.items():
            line = self.resource_index.get(name)
            if line is not None:
                taken[1 + line] = amount
            elif amount and amounts.is_scalar(name):
                sparse[name] = amount
        return Footprint(self.resources, vector, sparse)

    def _allocatable_line(self, row: int) -> IntArray:
        line: IntArray = self.amounts.data[: pods_line(len(self.amounts.data)), row]
        return line

    def _offer(self, allocatable: Iterable[str]) -> None:
        """Count the resources of a node, and give lines to those that have none, as far as lines go."""
        without_line = []
        for name in filter(amounts.is_scalar, allocatable):
            self._offered[name] = self._offered.get(name, 0) + 1
            if name not in self.resource_index:
                without_line.append(name)
        if without_line and self._deserve_lines(without_line):
            names = (*self._with_lines, *without_line)
            ranked = sorted(names, key=lambda name: -self._offered.get(name, 0))
            chosen = set(ranked[: self.MOST_LINES])
            self._lay_out([name for name in names if name in chosen])

    def _forget_offer(self, info: NodeRow, name: str) -> None:
        if name not in self.resource_index:
            self.sparse.offer(info, name, 0)
        self._offered[name] -= 1
        if not self._offered[name]:
            del self._offered[name]

    @property
    def _with_lines(self) -> Sequence[str]:
        return self.resources[len(BASE_RESOURCES) :]

    def _deserve_lines(self, names: Iterable[str]) -> bool:
        """Whether there are lines left, or many more nodes offer one of the resources than one that has a
        line. A single node cannot take a line away, however often its resources change."""
        if len(self._with_lines) < self.MOST_LINES:
            return True
        fewest = min((self._offered.get(name, 0) for name in self._with_lines), default=len(self.nodes))
        return max(self._offered[name] for name in names) > 2 * fewest + 1

    def _lay_out(self, names: Sequence[str]) -> None:
        """Have lines for these resources."""
        before, old = self.resource_index, self.amounts.data
        resources = (*BASE_RESOURCES, *names)
        column = Column(self._capacity, np.int64, lines=lines_for(len(resources)))
        lines, half, old_half = column.data, pods_line(len(column.data)), pods_line(len(old))
        for new_line, old_line in ((ALLOWED_PODS, ALLOWED_PODS), (half, old_half), (-2, -2), (-1, -1)):
            lines[new_line] = old[old_line]
        for place, name in enumerate(resources, 1):
            pair = [place, half + place]
            if name in before:
                lines[pair] = old[[1 + before[name], old_half + 1 + before[name]]]
            else:
                lines[pair, : len(self)] = self.sparse.lines(name, len(self))
        self.sparse.remove(name for name in names if name not in before)
        for name in before.keys() - set(resources):
            self._spread(name, old[[1 + before[name], old_half + 1 + before[name]]])
        self.amounts = column
        self.resources = resources
        self.resource_index = {name: i for i, name in enumerate(resources)}
        for info in self.nodes:
            info.amounts_changed()
        self.node_log.forget()  # what was computed from amounts is no longer comparable
        self.pod_log.forget()

    def _spread(self, name: str, lines: IntArray) -> None:
        """Keep the amounts of a resource that loses its lines."""
        for row in np.flatnonzero(lines.any(axis=0)).tolist():
            self.sparse.put(self.nodes[row], name, *lines[:, row].tolist())

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
