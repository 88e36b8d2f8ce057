"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod fills more evenly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.nodes import IntArray, NodeInfo, Nodes
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, skip
from mooring.plugins.args import NodeResourcesBalancedAllocationArgs
from mooring.plugins.arithmetic import (
    LOWEST_INT64,
    MAX_SCORE,
    to_int64,
    truncating_divide,
    valid_score,
    valid_scores,
)
from mooring.plugins.dynamic_resources.device_counts import DeviceCounts
from mooring.plugins.resource_columns import ScoredResources
from mooring.runtime.amounts import wrap_int64
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import engine_node, engine_nodes
from mooring.runtime.runners import outside_range

HALF = MAX_SCORE // 2

# As 0-d arrays: with these NumPy is twice as fast on a few rows as with Python's numbers.
_ONE, _TWO, _FIFTY, _HUNDRED = (np.array(number) for number in (1.0, 2.0, MAX_SCORE / 2, float(MAX_SCORE)))
_HALF, _ONE_BIT, _LOWEST = np.array(HALF), np.array(1), np.array(LOWEST_INT64)


class NodeResourcesBalancedAllocation(Plugin[NodeResourcesBalancedAllocationArgs]):
    """Scores how the spread between the resources' utilization changes when the pod is added: 75 where it
    stays, up to 100 where the pod evens it out, down to 50 where it makes it worse."""

    name = "NodeResourcesBalancedAllocation"
    cache_key = CacheKey.RESOURCES

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: EngineHandle) -> None:
        super().__init__(args, handle)
        self._devices = DeviceCounts(handle)
        self._scored_key = StateKey[ScoredResources](self.name)  # per instance, as the arguments are

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        requests = pod.shape.used
        if any(requests[spec.name] for spec in self.args.resources):
            return None
        # All nodes would score the same, and a burst of best-effort pods would land on one node.
        return skip(shape=True)

    def score_cache_key(self, pod: PodInfo) -> CacheKey:
        """Requested amounts do not include devices."""
        return CacheKey.NONE if self._scored_devices(pod) else CacheKey.RESOURCES

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        view = engine_node(node)
        scored = self._scored(state, pod, view.resources)
        amounts = self._devices.amounts_on(view, scored)
        with_pod, without, allocatable = [], [], []
        for amount, _, offered, requested, _ in scored.each:
            without.append(amounts[requested])
            with_pod.append(wrap_int64(amounts[requested] + amount))
            allocatable.append(amounts[offered])
        gain = wrap_int64(HALF + balance_of(with_pod, allocatable) - balance_of(without, allocatable))
        return valid_score(HALF + truncating_divide(gain, 2))

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        view = engine_nodes(nodes)
        scored = self._scored(state, pod, view.resources)
        amounts = self._devices.amounts(view, scored)
        allocatable = amounts[scored.allocatable]
        complete = scored.complete_at == view.node_version or scored.offered_by_all(view, allocatable)
        even = balance(amounts[scored.requested][:, None] + scored.cases, allocatable, complete)
        gain: IntArray = even[0]
        gain -= even[1]
        gain += _HALF
        if outside_range(gain):  # by overflow
            return valid_scores(HALF + truncating_divide(gain, 2))
        gain >>= _ONE_BIT
        gain += _HALF
        return gain

    def _scored(self, state: CycleState, pod: PodInfo, resources: Sequence[str]) -> ScoredResources:
        scored = state.get_cached(self._scored_key)
        if scored is None or scored.resources is not resources:
            devices = self._scored_devices(pod)
            scored = ScoredResources(self.args.resources, pod.shape.used, resources, devices)
            state.write_cached(self._scored_key, scored)
        return scored

    def _scored_devices(self, pod: PodInfo) -> Sequence[str]:
        """The scored resources that devices may be allocated for."""
        return self._devices.backed(spec.name for spec in self.args.resources if pod.shape.used[spec.name])


def balance(used: IntArray, allocatable: IntArray, complete: bool) -> IntArray:
    """How evenly the resources of nodes are used, 0 to 100.

    `used` has one plane per resource, with a line for each of several cases. A resource that a node does not
    have is left out there, which happens unless the nodes are `complete`. Nodes that have the same resources
    are computed together, since the formula differs by their number.
    """
    if complete:
        return _evenness(used / allocatable[:, None])
    present = allocatable != 0
    result = np.empty(used.shape[1:], np.int64)
    for pattern in np.unique(present, axis=1).T:
        rows = (present == pattern[:, None]).all(axis=0)
        result[:, rows] = _evenness(used[pattern][:, :, rows] / allocatable[pattern][:, None, rows])
    return result


def _evenness(fractions: npt.NDArray[np.float64]) -> IntArray:
    """(1 − standard deviation)·100, truncated. The order of the operations is kube-scheduler's: the last
    bit of a float decides whether 50 becomes 49."""
    count = len(fractions)
    if count < 2:
        return np.full(fractions.shape[1:], MAX_SCORE, np.int64)
    np.minimum(fractions, _ONE, out=fractions)
    if count == 2:
        # The deviation is half the difference. All is twice as large here, which rounds the same.
        difference = fractions[0] - fractions[1]
        evenness = _TWO - np.abs(difference, out=difference)
        evenness *= _FIFTY
    else:
        mean = sum(fractions[1:], start=fractions[0]) / count
        squares = [(fraction - mean) * (fraction - mean) for fraction in fractions]
        evenness = (_ONE - np.sqrt(sum(squares[1:], start=squares[0]) / count)) * _HUNDRED
    whole: IntArray = np.maximum(evenness, _LOWEST, out=evenness).astype(np.int64)
    return whole


def balance_of(used: Sequence[int], allocatable: Sequence[int]) -> int:
    """`balance` of one node."""
    fractions = [
        min(float(taken) / float(available), 1.0)
        for taken, available in zip(used, allocatable, strict=True)
        if available
    ]
    count = len(fractions)
    deviation = 0.0
    if count == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif count > 2:
        mean = _plain_sum(fractions) / count
        squares = [(fraction - mean) * (fraction - mean) for fraction in fractions]
        deviation = sqrt(_plain_sum(squares) / count)
    return to_int64((1 - deviation) * MAX_SCORE)


def _plain_sum(numbers: Iterable[float]) -> float:
    """One addition after the other; `sum` would compensate the rounding, which kube-scheduler does not."""
    total = 0.0
    for number in numbers:
        total += number
    return total
