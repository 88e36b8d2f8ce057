"""The scoring strategies of NodeResourcesFit: LeastAllocated, MostAllocated, RequestedToCapacityRatio."""

from __future__ import annotations

import numpy as np

from mooring.framework.arithmetic import MAX_SCORE, broken_linear, round_half_away
from mooring.framework.nodes import IntArray
from mooring.plugins.args import ScoringStrategy

LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO = ScoringStrategy.TYPES

MAX_CUSTOM_SCORE = 10  # the scale on which the shape's points give their scores


class Strategy:
    """Rates each resource of a node from 0 to 100; the node's score is the weighted mean of the ratings."""

    def __init__(self, strategy: ScoringStrategy) -> None:
        self._least = strategy.type == LEAST_ALLOCATED
        self._curve: IntArray | None = None
        if strategy.type == REQUESTED_TO_CAPACITY_RATIO and strategy.requested_to_capacity_ratio is not None:
            scale = MAX_SCORE // MAX_CUSTOM_SCORE
            shape = strategy.requested_to_capacity_ratio.shape
            points = [(point.utilization, point.score * scale) for point in shape]
            # Utilization is a whole number of percent, so the function is a table.
            self._curve = broken_linear(points, np.arange(101, dtype=np.int64))

    def score(self, requested: IntArray, allocatable: IntArray, weights: IntArray) -> IntArray:
        """`requested` and `allocatable` have one line per resource; what a node has none of is left out."""
        complete = bool(allocatable.all())
        divisor = allocatable if complete else np.where(allocatable == 0, 1, allocatable)
        if self._least:
            ratings = np.maximum(divisor - requested, 0) * MAX_SCORE // divisor
        else:
            ratings = np.minimum(requested, divisor) * MAX_SCORE // divisor
        if self._curve is not None:
            return self._score_by_curve(self._curve[ratings], allocatable, weights)
        if complete:
            scores: IntArray = weights @ ratings // weights.sum()
        else:
            own = weights[:, None] * (allocatable != 0)
            scores = (ratings * own).sum(axis=0) // np.maximum(own.sum(axis=0), 1)
        return scores

    def _score_by_curve(self, ratings: IntArray, allocatable: IntArray, weights: IntArray) -> IntArray:
        """A resource rated 0 is left out like one that is not there, and the mean is rounded."""
        own = weights[:, None] * ((allocatable != 0) & (ratings > 0))
        return round_half_away((ratings * own).sum(axis=0) / np.maximum(own.sum(axis=0), 1))
