"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod fills more evenly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.framework.arithmetic import MAX_SCORE
from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import Depends, IntArray, Nodes
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import SKIP, Status
from mooring.plugins.args import NodeResourcesBalancedAllocationArgs
from mooring.plugins.resource_columns import ScoredResources, remember_for

Fractions = npt.NDArray[np.float64]


class NodeResourcesBalancedAllocation(Plugin):
    """Scores how the spread between the resources' utilization changes when the pod is added: 75 where it
    stays, up to 100 where the pod evens it out, down to 50 where it makes it worse."""

    name = "NodeResourcesBalancedAllocation"
    depends = Depends.PODS
    args: NodeResourcesBalancedAllocationArgs

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        # All nodes would score the same, and a burst of best-effort pods would land on one node.
        return SKIP if self._best_effort(pod) else None

    def _best_effort(self, pod: PodInfo) -> bool:
        return not any(pod.shape.used[spec.name] for spec in self.args.resources)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        if self._best_effort(pod):
            return np.zeros(len(nodes), np.int64)
        scored = remember_for(
            state, self, nodes, lambda: ScoredResources(self.args.resources, pod.shape.used, nodes.resources)
        )
        used = scored.requested(nodes)
        cases = np.stack((used + scored.requests, used), axis=1)
        with_pod, without_pod = _balance(cases, scored.allocatable(nodes))
        half = MAX_SCORE // 2
        scores: IntArray = (half + with_pod - without_pod) // 2 + half
        return scores


def _balance(used: IntArray, allocatable: IntArray) -> IntArray:
    """How evenly resources are used, 0 to 100: lines of resources × cases × rows to cases × rows.

    A resource that a node does not have is left out there. Nodes that have the same resources are computed
    together, since the formula differs by their number.
    """
    present = allocatable != 0
    if present.all():
        return _evenness(np.minimum(used / allocatable[:, None, :], 1.0))
    result = np.empty(used.shape[1:], np.int64)
    for pattern in np.unique(present, axis=1).T:
        rows = (present == pattern[:, None]).all(axis=0)
        own = used[pattern][:, :, rows] / allocatable[pattern][:, None, rows]
        result[:, rows] = _evenness(np.minimum(own, 1.0))
    return result


def _evenness(fractions: Fractions) -> IntArray:
    """(1 − standard deviation)·100, truncated. The order of the operations is kube-scheduler's: the last
    bit of a float decides whether 50 becomes 49."""
    count = len(fractions)
    if count < 2:
        return np.full(fractions.shape[1:], MAX_SCORE, np.int64)
    if count == 2:
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        mean = sum(fractions[1:], start=fractions[0]) / count
        squares = (fractions - mean) * (fractions - mean)
        deviation = np.sqrt(sum(squares[1:], start=squares[0]) / count)
    evenness: Fractions = (1 - deviation) * MAX_SCORE
    return evenness.astype(np.int64)
