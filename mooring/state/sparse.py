"""Amounts of the resources that have no line in the node table.

Nodes and pods may name any number of resources. The ones that most nodes offer have lines; of the others only
what a node has, or its pods take, is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mooring.framework.nodes import IntArray
from mooring.runtime.amounts import wrap_int64

if TYPE_CHECKING:
    from mooring.state.node_info import NodeRow


class Amount(NamedTuple):
    """Of one resource: what a node has, and what its pods take of that."""

    allocatable: int
    requested: int


NOTHING = Amount(0, 0)


def plus(amounts: dict[str, Amount], taken: Mapping[str, int], sign: int) -> None:
    """Count what a pod takes (sign 1), or took (-1)."""
    for name, amount in taken.items():
        before = amounts.get(name, NOTHING)
        # As a line counts, which the resource may have had before, or get.
        amounts[name] = before._replace(requested=wrap_int64(before.requested + sign * amount))


class SparseAmounts:
    """The nodes by resource; the amounts are the nodes' own."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[str, dict[NodeRow, None]] = {}

    def offer(self, info: NodeRow, name: str, allocatable: int) -> None:
        self._put(info, name, info.sparse.get(name, NOTHING)._replace(allocatable=allocatable))

    def count(self, info: NodeRow, taken: Mapping[str, int], sign: int) -> None:
        plus(info.sparse, taken, sign)
        for name in taken:
            self._put(info, name, info.sparse[name])

    def put(self, info: NodeRow, name: str, allocatable: int, requested: int) -> None:
        self._put(info, name, Amount(allocatable, requested))

    def _put(self, info: NodeRow, name: str, amount: Amount) -> None:
        if any(amount):
            info.sparse[name] = amount
            self._nodes.setdefault(name, {})[info] = None
            return
        info.sparse.pop(name, None)
        nodes = self._nodes.get(name)
        if nodes is not None:
            nodes.pop(info, None)
            if not nodes:
                del self._nodes[name]

    def lines(self, name: str, rows: int) -> IntArray:
        """Return what each row of the table has of a resource, and what its pods take: one line each."""
        lines = np.zeros((2, rows), np.int64)
        for info in self._nodes.get(name, ()):
            lines[:, info.row] = info.sparse[name]
        return lines

    def remove(self, names: Iterable[str]) -> None:
        """Forget resources that have lines from now on."""
        for name in names:
            for info in self._nodes.pop(name, ()):
                del info.sparse[name]
