"""Arithmetic as Go does it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.plugins.arithmetic import (
    broken_linear,
    default_normalize,
    round_half_away,
    round_one,
    to_int64,
    truncating_divide,
)
from mooring.runtime.amounts import wrap_int64

numbers = st.integers(-(2**40), 2**40)


def toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@given(st.lists(numbers, min_size=1), numbers.filter(bool))
def test_division_truncates_toward_zero(values: list[int], divisor: int) -> None:
    expected = [toward_zero(value, divisor) for value in values]
    assert truncating_divide(np.array(values), divisor).tolist() == expected
    assert truncating_divide(np.array(values), np.full(len(values), divisor)).tolist() == expected
    assert [truncating_divide(value, divisor) for value in values] == expected


def test_division_leaves_its_arguments_alone() -> None:
    values = np.array([-7, 7])
    assert truncating_divide(values, 2).tolist() == [-3, 3]
    assert values.tolist() == [-7, 7]


@given(st.lists(st.floats(-(2.0**50), 2.0**50), min_size=1))
def test_halves_round_away_from_zero(values: list[float]) -> None:
    def nearest(value: float) -> int:
        size = int(abs(Fraction(value)) + Fraction(1, 2))
        return size if value >= 0 else -size

    expected = [nearest(value) for value in values]
    assert round_half_away(np.array(values)).tolist() == expected
    assert [round_one(value) for value in values] == expected


def test_the_float_just_below_a_half_rounds_down() -> None:
    values = [0.49999999999999994, 0.5, -0.5, 1.5, 2.5]
    assert round_half_away(np.array(values)).tolist() == [0, 1, -1, 2, 3]
    assert [round_one(value) for value in values] == [0, 1, -1, 2, 3]


@pytest.mark.parametrize(
    ("raw", "reverse", "expected"),
    [
        ([0, 1, 3], False, [0, 33, 100]),
        ([0, 1, 2], True, [100, 50, 0]),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([-2, -1], False, [-2, -1]),  # nothing above 0: left alone
        ([-1, 3], False, [-33, 100]),
        ([], True, []),
    ],
)
def test_default_normalize(raw: list[int], reverse: bool, expected: list[int]) -> None:
    assert default_normalize(np.array(raw, np.int64), reverse=reverse).tolist() == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.booleans())
def test_default_normalize_overflows_as_in_go(raw: list[int], reverse: bool) -> None:
    highest = max(0, *raw)
    expected = [100] * len(raw) if reverse else raw
    if highest:
        scaled = [toward_zero(wrap_int64(100 * score), highest) for score in raw]
        expected = [100 - score for score in scaled] if reverse else scaled
    assert default_normalize(np.array(raw), reverse=reverse).tolist() == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_that_are_no_int64_become_the_lowest(value: float) -> None:
    fits = -(2**63) <= int(value) < 2**63
    assert to_int64(value) == (int(value) if fits else -(2**63))


@given(st.integers(-(2**64), 2**64), st.integers(-(2**64), 2**64))
def test_python_integers_wrap_as_int64(a: int, b: int) -> None:
    assert wrap_int64(wrap_int64(a) + wrap_int64(b)) == wrap_int64(a + b)
    assert wrap_int64(a) == int(np.array(a % 2**64, np.uint64).view(np.int64))


def test_a_falling_line_truncates() -> None:
    # 100 − 80·33/70 = 62.29: the slope's part is truncated, not the sum, so the answer is 63.
    shape = [(0, 100), (70, 20)]
    assert broken_linear(shape, np.array([0, 33, 70, 71, 100])).tolist() == [100, 63, 20, 20, 20]


def test_before_the_first_point_the_function_is_flat() -> None:
    shape = [(20, 10), (40, 30), (50, 0)]
    assert broken_linear(shape, np.array([0, 20, 30, 40, 45, 50])).tolist() == [10, 10, 20, 30, 15, 0]
    assert broken_linear([(50, 7)], np.array([0, 50, 100])).tolist() == [7, 7, 7]
