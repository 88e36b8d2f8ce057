"""The scoring strategies of NodeResourcesFit: LeastAllocated, MostAllocated, RequestedToCapacityRatio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from mooring.framework.nodes import IntArray
from mooring.plugins.args import ScoringStrategy
from mooring.plugins.arithmetic import MAX_SCORE, broken_linear, truncating_divide, valid_score, valid_scores
from mooring.plugins.resource_columns import ScoredResources
from mooring.runtime.amounts import wrap_int64
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.runners import outside_range

N = TypeVar("N", int, IntArray)

LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO = ScoringStrategy.TYPES

MAX_CUSTOM_SCORE = 10  # the scale on which the shape's points give their scores

# As 0-d arrays: with these NumPy is twice as fast on a few rows as with Python's integers.
_ZERO, _ONE, _HUNDRED = np.array(0), np.array(1), np.array(MAX_SCORE)

# What a node has up to this amount does not overflow when it is turned into percent.
_MOST_IN_PERCENT = (2**63 - 1) // MAX_SCORE


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

    def score(self, scored: ScoredResources, nodes: EngineNodes, amounts: IntArray) -> IntArray:
        """The scores of nodes that have these amounts, computed with one line per resource."""
        allocatable = amounts[scored.allocatable]
        complete = scored.complete_at == nodes.node_version or scored.offered_by_all(nodes, allocatable)
        divisor = allocatable if complete else np.maximum(allocatable, _ONE)
        requested = amounts[scored.nonzero_requested] + scored.requests
        if self._curve is not None:
            return self._score_by_curve(scored, self._curve, requested, allocatable, divisor)
        ratings = np.minimum(requested, divisor, out=requested)
        if self._least:
            np.subtract(divisor, ratings, out=ratings)
        ratings *= _HUNDRED
        quotients = ratings // divisor
        if complete and not outside_range(quotients):  # the result is Go's, overflown or not
            return scored.weighted_sum(quotients) // scored.total_weight
        ratings = truncating_divide(ratings, divisor)
        if complete:
            return valid_scores(scored.weighted_sum(ratings) // scored.total_weight)
        counted = allocatable > _ZERO
        weights = np.maximum(scored.weighted_sum(counted.astype(np.int64)), _ONE)
        return valid_scores(scored.weighted_sum(ratings * counted) // weights)

    def _score_by_curve(
        self,
        scored: ScoredResources,
        curve: IntArray,
        requested: IntArray,
        allocatable: IntArray,
        divisor: IntArray,
    ) -> IntArray:
        percent = truncating_divide(requested * _HUNDRED, divisor).clip(0, MAX_SCORE)
        ratings = curve[np.where(requested > divisor, _HUNDRED, percent)]
        counted = (allocatable > _ZERO) & (ratings > _ZERO)
        weights = np.maximum(scored.weighted_sum(counted.astype(np.int64)), _ONE)
        return _rounded_mean(scored.weighted_sum(ratings * counted), weights)

    def score_one(self, scored: ScoredResources, amounts: Sequence[int]) -> int:
        """`score` of one node: most often it is asked about the one that the last pod went to."""
        points = total = 0
        for amount, weight, allocatable, _, nonzero_requested in scored.each:
            available = amounts[allocatable]
            if available:
                rating = self._rate(amounts[nonzero_requested] + amount, available)
                if self._curve is not None and not rating:
                    continue
                points += rating * weight
                total += weight
        if not total:
            return 0
        if self._curve is not None:
            return _rounded_mean(points, total)
        return valid_score(wrap_int64(points) // total)

    def _rate(self, requested: int, available: int) -> int:
        if not (0 <= requested < 2**63 and 0 < available <= _MOST_IN_PERCENT):
            return self._rate_overflowing(wrap_int64(requested), available)
        requested = min(requested, available)
        if self._curve is not None:
            return int(self._curve[requested * MAX_SCORE // available])
        return (available - requested if self._least else requested) * MAX_SCORE // available

    def _rate_overflowing(self, requested: int, available: int) -> int:
        """`_rate` where int64 may overflow on the way, step by step as kube-scheduler computes it."""
        if self._curve is not None and requested > available:
            return int(self._curve[MAX_SCORE])
        part = min(requested, available)
        if self._least:
            part = available - part
        percent = truncating_divide(wrap_int64(part * MAX_SCORE), available)
        return percent if self._curve is None else int(self._curve[valid_score(percent)])


def _rounded_mean(points: N, weight: N) -> N:
    return (2 * points + weight) // (2 * weight)
