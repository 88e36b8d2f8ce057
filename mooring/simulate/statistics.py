"""Means with confidence intervals over seeds, and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t for 95 % by degrees of freedom, from 1 on."""


class Interval(NamedTuple):
    """A mean and half the width of its 95 % confidence interval; 0 where there is one value only."""

    mean: float
    half: float = 0.0

    @property
    def significant(self) -> bool:
        """Whether 0 is outside of the interval."""
        return self.half > 0 and abs(self.mean) > self.half


def interval(values: Sequence[float]) -> Interval:
    numbers = np.array([value for value in values if value == value], np.float64)
    if not len(numbers):
        return Interval(float("nan"))
    mean = float(numbers.mean())
    if len(numbers) == 1:
        return Interval(mean)
    freedom = len(numbers) - 1
    t = _T[freedom - 1] if freedom <= len(_T) else 1.96
    return Interval(mean, t * float(numbers.std(ddof=1)) / sqrt(len(numbers)))


def paired(first: Sequence[float], second: Sequence[float]) -> Interval:
    """The mean of second minus first, seed by seed."""
    return interval([b - a for a, b in zip(first, second, strict=True)])
