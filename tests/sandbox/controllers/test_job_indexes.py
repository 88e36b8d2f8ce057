"""Lists of completion indexes."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sandbox.controllers.job_indexes import IndexSet, parse_indexes

INDEXES = st.sets(st.integers(0, 60))
MOST = 2**31 - 1


@given(INDEXES)
def test_what_is_written_is_read(indexes: set[int]) -> None:
    assert parse_indexes(str(IndexSet.of(indexes)), 61) == IndexSet.of(indexes)


@given(INDEXES, INDEXES)
def test_like_a_set(left: set[int], right: set[int]) -> None:
    first, second = IndexSet.of(left), IndexSet.of(right)
    assert first | second == IndexSet.of(left | right)
    assert first & second == IndexSet.of(left & right)
    assert len(first) == len(left)
    assert [index for index in range(62) if index in first] == sorted(left)
    assert list(first.missing(61)) == sorted(set(range(61)) - left)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [({5}, "5"), ({5, 6}, "5,6"), ({0, 1, 2, 3, 5, 7, 8}, "0-3,5,7,8"), (set(), "")],
)
def test_the_shortest_list(indexes: set[int], text: str) -> None:
    assert str(IndexSet.of(indexes)) == text


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "2-1", "1-b", "9-12", "99999999999"])
def test_what_makes_no_sense_or_is_too_large_is_passed_over(text: str) -> None:
    assert not parse_indexes(text, 9)


def test_two_billion_indexes_take_no_memory() -> None:
    indexes = parse_indexes(f"0-9,20-{MOST - 1}", MOST)
    assert len(indexes) == MOST - 10
    assert list(islice(indexes.missing(MOST), 20)) == [*range(10, 20)]
    assert str(indexes & parse_indexes("5-25", MOST)) == "5-9,20-25"
