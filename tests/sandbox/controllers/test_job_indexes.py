"""Lists of completion indexes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sandbox.controllers.job_indexes import format_indexes, parse_indexes


@given(st.sets(st.integers(0, 60)))
def test_what_is_written_is_read(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes), 61) == indexes


@pytest.mark.parametrize(
    ("indexes", "text"),
    [({5}, "5"), ({5, 6}, "5,6"), ({0, 1, 2, 3, 5, 7, 8}, "0-3,5,7,8"), (set(), "")],
)
def test_the_shortest_list(indexes: set[int], text: str) -> None:
    assert format_indexes(indexes) == text


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "2-1", "1-b", "9-12", "99999999999"])
def test_what_makes_no_sense_or_is_too_large_is_passed_over(text: str) -> None:
    assert parse_indexes(text, 9) == set()
