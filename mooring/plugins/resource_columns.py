"""Which lines of the node table's amounts a pod shape is about, for the plugins that weigh resources."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar
from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import IntArray, NodeInfo, Nodes
from mooring.plugins.args import ResourceSpec

Lines = slice | npt.NDArray[np.intp]
T = TypeVar("T")

_NONZERO = [CPU, MEMORY]  # the lines of `Nodes.nonzero_requested`


def is_tracked(name: str) -> bool:
    """Whether nodes keep account of a resource; requests for others are passed over."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


def lines_of(names: Iterable[str], resources: Sequence[str]) -> Lines:
    """Where the resources stand in the table's matrices; a slice, which copies nothing, where one will do."""
    lines = [resources.index(name) for name in names]
    if lines and lines == list(range(lines[0], lines[0] + len(lines))):
        return slice(lines[0], lines[0] + len(lines))
    return np.array(lines, np.intp)


def remember_for(state: CycleState, key: Hashable, resources: Sequence[str], make: Callable[[], T]) -> T:
    """`state.remember` for what also follows from which resources the table has lines for."""
    known = len(resources)
    found: tuple[int, T] | None = state.memory.get(key)
    if found is None or found[0] != known:
        found = state.memory[key] = (known, make())
    return found[1]


class ScoredResources:
    """The resources that count when a pod shape is scored: all configured ones, but scalar resources only
    where the pod requests them. What no node offers has no line and counts nowhere."""

    __slots__ = (
        "_everywhere",
        "_names",
        "_version",
        "amounts",
        "cases",
        "line_weights",
        "lines",
        "places",
        "requests",
        "total_weight",
        "weights",
    )

    def __init__(
        self, specs: Iterable[ResourceSpec], requests: Mapping[str, int], resources: Sequence[str]
    ) -> None:
        counted = [
            spec
            for spec in specs
            if spec.name in resources and (requests.get(spec.name) or not is_scalar(spec.name))
        ]
        self._names = [spec.name for spec in counted]
        self.places = [resources.index(name) for name in self._names]
        self.lines = lines_of(self._names, resources)
        self.amounts = [requests.get(spec.name, 0) for spec in counted]
        self.weights = [spec.weight for spec in counted]
        # The same as arrays, to compute with lines of the table.
        self.requests: IntArray = np.array(self.amounts, np.int64).reshape(-1, 1)
        self.cases: IntArray = np.stack(
            [self.requests, np.zeros_like(self.requests)]
        )  # with the pod, without
        self.line_weights: IntArray = np.array(self.weights, np.int64)
        self.total_weight: IntArray = np.array(sum(self.weights), np.int64)
        self._version, self._everywhere = -1, False

    def __len__(self) -> int:
        return len(self.weights)

    def allocatable(self, nodes: Nodes) -> IntArray:
        """What the nodes have of them, one line per resource."""
        return nodes.allocatable.matrix[self.lines]

    def offered_by_all(self, nodes: Nodes, allocatable: IntArray) -> bool:
        """Whether the nodes, which have `allocatable`, have some of each. Nearly always the whole table has,
        which need be looked at only after a Node changed."""
        if self._version != nodes.node_version:
            self._version = nodes.node_version
            self._everywhere = bool(self.allocatable(nodes.whole).all())
        return self._everywhere or bool(allocatable.all())

    def requested(self, nodes: Nodes) -> IntArray:
        """What the pods on the nodes request."""
        return nodes.requested.matrix[self.lines]

    def nonzero_requested_of(self, node: NodeInfo) -> list[int]:
        """`nonzero_requested` of one node."""
        nonzero = node.nonzero_requested
        if self._names == _NONZERO:
            return list(nonzero)
        requested = node.requested_amounts
        return [
            nonzero[_NONZERO.index(name)] if name in _NONZERO else requested[place]
            for name, place in zip(self._names, self.places, strict=True)
        ]

    def pick(self, amounts: Sequence[int]) -> list[int]:
        """Of all amounts of one node, those of these resources."""
        return [amounts[place] for place in self.places]

    def nonzero_requested(self, nodes: Nodes) -> IntArray:
        """The same, with a default for containers that request no cpu or memory."""
        nonzero = nodes.nonzero_requested
        if self._names == _NONZERO:
            return nonzero
        requested = self.requested(nodes).copy()
        for i, name in enumerate(self._names):
            if name in _NONZERO:
                requested[i] = nonzero[_NONZERO.index(name)]
        return requested
