"""Go's integer arithmetic over arrays, and the score formulas that several plugins share.

Scores must equal kube-scheduler's to the last digit, so divisions truncate toward zero (NumPy's floor) and
halves round away from zero (NumPy's round to even). Sums and products overflow in Go as in NumPy; with
Python's integers, `wrap_int64` does it. Most calls come with a handful of rows, where the number of NumPy
calls is the cost: each function makes as few as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import overload

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import IntArray

MAX_SCORE = 100
LOWEST_INT64 = -(2.0**63)


def default_normalize(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """Scale so that the highest score becomes 100; `reverse` makes the lowest the best.

    Where no score is above 0 they stay as they are, or all become 100 when reversed.
    """
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = truncating_divide(scores * MAX_SCORE, highest)
    return MAX_SCORE - scaled if reverse else scaled


@overload
def truncating_divide(a: int, b: int) -> int: ...
@overload
def truncating_divide(a: IntArray, b: IntArray | int) -> IntArray: ...
def truncating_divide(a: IntArray | int, b: IntArray | int) -> IntArray | int:
    """a / b as Go divides integers: toward zero."""
    quotient = a // b
    # Floor and truncation differ only below zero, which scores hardly ever are.
    if isinstance(quotient, int):
        return quotient + (quotient < 0 and quotient * b != a)
    if quotient.min(initial=0) < 0:
        quotient += (quotient < 0) & (quotient * b != a)
    return quotient


def valid_scores(scores: IntArray) -> IntArray:
    """Scores with those outside 0..100 moved to the nearer end.

    A sum of absurd amounts can overflow to such a score. kube-scheduler then fails the attempt, so that one
    node with 90 PiB of memory keeps every pod of the cluster pending.
    """
    if len(scores) and (scores.item(scores.argmin()) < 0 or scores.item(scores.argmax()) > MAX_SCORE):
        return scores.clip(0, MAX_SCORE)
    return scores


def valid_score(score: int) -> int:
    """`valid_scores` of one number."""
    return max(0, min(score, MAX_SCORE))


def to_int64(value: float) -> int:
    """Go's int64(value) on amd64, where what does not fit becomes the lowest number."""
    return int(value) if LOWEST_INT64 <= value < -LOWEST_INT64 else int(LOWEST_INT64)


def round_one(value: float) -> int:
    """`round_half_away` of one number."""
    whole = int(value)
    return whole + int((value - whole) * 2)


def round_half_away(values: npt.NDArray[np.float64]) -> IntArray:
    """Go's math.Round, as integers: halves go away from zero."""
    whole = np.trunc(values)
    # The remainder is exact, where adding 0.5 would lift the float just below a half to the next integer.
    return (whole + np.trunc((values - whole) * 2)).astype(np.int64)


def broken_linear(points: Sequence[tuple[int, int]], x: IntArray) -> IntArray:
    """The function through the points (x, y), in integers; before the first and after the last it is flat."""
    result = np.full_like(x, points[-1][1])
    for (left, low), (right, high) in reversed(list(pairwise(points))):
        sloped = low + truncating_divide((high - low) * (x - left), right - left)
        result = np.where(x <= right, sloped, result)
    return np.where(x <= points[0][0], points[0][1], result)
