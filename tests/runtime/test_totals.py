"""The best rows, kept up to date change by change, are those that a fresh look would find."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.runtime.totals import Totals

ROWS = 6
TOTALS = st.integers(-1, 4)  # few values, so that there are ties
LISTS = st.lists(TOTALS, min_size=ROWS, max_size=ROWS)
CHANGES = st.lists(st.tuples(st.integers(0, ROWS - 1), TOTALS), max_size=30)


@given(LISTS, CHANGES, st.sets(st.integers(0, 29)))
def test_one_by_one(start: list[int], changes: list[tuple[int, int]], looks: set[int]) -> None:
    """Looking now and then must not change what is found later."""
    totals = Totals(np.array(start, np.int64))
    for i, (row, total) in enumerate(changes):
        totals.set_one(row, total)
        start[row] = total
        if i in looks:
            assert totals.best().tolist() == best_of(start)
    assert totals.best().tolist() == best_of(start)
    assert totals.values.tolist() == start


@given(LISTS, LISTS, CHANGES)
def test_many_at_once(start: list[int], then: list[int], changes: list[tuple[int, int]]) -> None:
    totals = Totals(np.array(start, np.int64))
    for row, total in changes:
        totals.best()
        totals.set_one(row, total)
    rows = np.arange(0, ROWS, 2)
    totals.set(rows, np.array(then, np.int64)[rows])
    assert totals.best().tolist() == best_of(totals.values.tolist())


def best_of(totals: list[int]) -> list[int]:
    return [row for row, total in enumerate(totals) if total == max(totals)]
