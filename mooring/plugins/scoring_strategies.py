"""The scoring strategies of NodeResourcesFit: LeastAllocated, MostAllocated, RequestedToCapacityRatio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from mooring.framework.nodes import IntArray, Nodes
from mooring.plugins.args import ScoringStrategy
from mooring.plugins.arithmetic import MAX_SCORE, broken_linear
from mooring.plugins.resource_columns import ScoredResources

N = TypeVar("N", int, IntArray)

LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO = ScoringStrategy.TYPES

MAX_CUSTOM_SCORE = 10  # the scale on which the shape's points give their scores

# As 0-d arrays: with these NumPy is twice as fast on a few rows as with Python's integers.
_ZERO, _ONE, _HUNDRED = np.array(0), np.array(1), np.array(MAX_SCORE)


class Strategy:
    """Rates each resource of a node from 0 to 100; the node's score is the weighted mean of the ratings.

    A resource of which a node has nothing is left out, and with RequestedToCapacityRatio also one rated 0;
    that strategy rounds the mean to the nearest integer, the others truncate it.
    """

    def __init__(self, strategy: ScoringStrategy) -> None:
        self._least = strategy.type == LEAST_ALLOCATED
        self._curve: IntArray | None = None
        if strategy.type == REQUESTED_TO_CAPACITY_RATIO and strategy.requested_to_capacity_ratio is not None:
            scale = MAX_SCORE // MAX_CUSTOM_SCORE
            shape = strategy.requested_to_capacity_ratio.shape
            points = [(point.utilization, point.score * scale) for point in shape]
            # Utilization is a whole number of percent, so the function is a table.
            self._curve = broken_linear(points, np.arange(101, dtype=np.int64))

    def score(self, scored: ScoredResources, nodes: Nodes) -> IntArray:
        """The scores of nodes, computed with one line per resource."""
        amounts = nodes.amounts
        allocatable = amounts[scored.allocatable]
        complete = scored.complete_at == nodes.node_version or scored.offered_by_all(nodes, allocatable)
        divisor = allocatable if complete else np.maximum(allocatable, _ONE)
        used = amounts[scored.nonzero_requested]
        if self._least:
            ratings = divisor - used
            ratings -= scored.requests
            np.maximum(ratings, _ZERO, out=ratings)
        else:
            ratings = used + scored.requests
            np.minimum(ratings, divisor, out=ratings)
        ratings *= _HUNDRED
        ratings //= divisor
        if complete and self._curve is None:
            scores: IntArray = scored.weighted_sum(ratings) // scored.total_weight
            return scores
        counted = allocatable > _ZERO
        if self._curve is not None:
            ratings = self._curve[ratings]
            counted &= ratings > _ZERO
        return self._mean(
            scored.weighted_sum(ratings * counted),
            np.maximum(scored.weighted_sum(counted.astype(np.int64)), _ONE),
        )

    def score_one(self, scored: ScoredResources, amounts: Sequence[int]) -> int:
        """`score` of one node: the one that the last pod went to is what is asked about most."""
        points = total = 0
        for amount, weight, allocatable, _, nonzero_requested in scored.each:
            available = amounts[allocatable]
            if available:
                requested = min(amounts[nonzero_requested] + amount, available)
                rating = (available - requested if self._least else requested) * MAX_SCORE // available
                if self._curve is not None:
                    rating = int(self._curve[rating])
                    if not rating:
                        continue
                points += rating * weight
                total += weight
        return self._mean(points, total) if total else 0

    def _mean(self, points: N, weight: N) -> N:
        if self._curve is None:
            return points // weight
        return (2 * points + weight) // (2 * weight)
