"""Which lines of the nodes' amounts a pod shape is about, for the plugins that weigh resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar
from mooring.framework.nodes import IntArray
from mooring.plugins.args import ResourceSpec
from mooring.runtime.amounts import lines_for, pods_line
from mooring.runtime.engine_nodes import EngineNodes

Lines = slice | npt.NDArray[np.intp]

_NONZERO = (CPU, MEMORY)  # the order of the last lines


def is_tracked(name: str) -> bool:
    """Whether nodes keep account of a resource; requests for others are passed over."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


def lines_of(lines: Sequence[int]) -> Lines:
    """An index for these lines; a slice, which copies nothing, where one will do."""
    if lines and list(lines) == list(range(lines[0], lines[0] + len(lines))):
        return slice(lines[0], lines[0] + len(lines))
    return np.array(lines, np.intp)


class ScoredResource(NamedTuple):
    """One resource that counts: what the pod requests of it, and where nodes have their amounts."""

    amount: int
    weight: int
    allocatable: int
    requested: int
    nonzero_requested: int  # the same where cpu and memory that are not requested count with a default


class ScoredResources:
    """The resources that count when a pod shape is scored: all configured ones, but scalar resources only
    where the pod requests them. Those that device classes stand behind, and those that have no line in the
    table, have two lines each after all others: what there is, and what is in use."""

    __slots__ = (
        "_looked_at",
        "allocatable",
        "apart",
        "cases",
        "complete_at",
        "device_backed",
        "each",
        "nonzero_requested",
        "requested",
        "requests",
        "resources",
        "total_weight",
        "weights",
    )

    def __init__(
        self,
        specs: Sequence[ResourceSpec],
        requests: Mapping[str, int],
        resources: Sequence[str],
        device_backed: Sequence[str] = (),
    ) -> None:
        self.resources = resources
        self.device_backed = device_backed
        lines = lines_for(len(resources))
        taken = pods_line(lines)
        scalar = [s.name for s in specs if requests.get(s.name, 0) and is_scalar(s.name)]
        sparse = [name for name in scalar if name not in resources and name not in device_backed]
        self.apart = (*device_backed, *sparse)
        self.each: list[ScoredResource] = []
        for name, weight in ((spec.name, spec.weight) for spec in specs):
            amount = requests.get(name, 0)
            if name in self.apart:
                place = lines + 2 * self.apart.index(name)
                self.each.append(ScoredResource(amount, weight, place, place + 1, place + 1))
            elif name in resources and (amount or not is_scalar(name)):
                place = 1 + resources.index(name)
                nonzero = lines - 2 + _NONZERO.index(name) if name in _NONZERO else taken + place
                self.each.append(ScoredResource(amount, weight, place, taken + place, nonzero))
        # The same as lines of `Nodes.amounts`, and what is computed with them.
        self.allocatable = lines_of([each.allocatable for each in self.each])
        self.requested = lines_of([each.requested for each in self.each])
        self.nonzero_requested = lines_of([each.nonzero_requested for each in self.each])
        self.weights = [each.weight for each in self.each]
        self.total_weight: IntArray = np.array(sum(self.weights), np.int64)
        amounts = [each.amount for each in self.each]
        self.requests: IntArray = np.array(amounts, np.int64).reshape(-1, 1)
        # The same twice for each resource: with the pod, and without it.
        self.cases: IntArray = np.array([(amount, 0) for amount in amounts], np.int64).reshape(-1, 2, 1)
        self._looked_at = self.complete_at = -1  # the node_version at which all nodes had some of each

    def offered_by_all(self, nodes: EngineNodes, allocatable: IntArray) -> bool:
        """Whether the nodes, which have `allocatable`, have some of each. Nearly always the whole table has,
        which need be looked at only after a Node changed: those in a hurry compare `complete_at` first."""
        if self.apart:
            return bool(allocatable.all())
        version = nodes.node_version
        if self._looked_at != version:
            self._looked_at = version
            if nodes.whole.amounts[self.allocatable].all():
                self.complete_at = version
        return self.complete_at == version or bool(allocatable.all())

    def weighted_sum(self, lines: IntArray) -> IntArray:
        """The sum over the resources of one line each; there must be some."""
        total: IntArray = lines[0] if self.weights[0] == 1 else lines[0] * self.weights[0]
        for i in range(1, len(self.weights)):
            weight = self.weights[i]
            total = total + (lines[i] if weight == 1 else lines[i] * weight)
        return total
