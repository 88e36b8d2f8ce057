"""The total score of each row, and which rows have the highest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.framework.changes import Rows
from mooring.framework.nodes import IntArray


class Totals:
    """Totals by row. The rows with the highest are looked for when they are asked for, and then kept up to
    date while rows change one by one.

    A pod may make its node the only best one, until the next pod that goes there makes it less good again.
    So one row can be ahead of the `_best` of all others, which then need not be looked for again.
    """

    __slots__ = ("_ahead", "_best", "_highest", "values")

    def __init__(self, values: IntArray) -> None:
        self.values = values
        self._best: npt.NDArray[np.intp] | None = None  # None: to be looked for
        self._highest = 0  # the total of those
        self._ahead: int | None = None  # the row with a higher one

    def best(self) -> npt.NDArray[np.intp]:
        """The rows with the highest total, in order."""
        if self._ahead is not None:
            return np.array([self._ahead], np.intp)
        if self._best is None:
            values = self.values
            self._highest = values.item(int(values.argmax()))
            self._best = (values == self._highest).nonzero()[0]
        return self._best

    def set(self, rows: Rows, totals: IntArray) -> None:
        self.values[rows] = totals
        self._best = self._ahead = None

    def set_one(self, row: int, total: int) -> None:
        old = self.values.item(row)
        self.values[row] = total
        best, highest = self._best, self._highest
        if best is None or total == old:
            return
        if row == self._ahead:
            self._ahead = None  # perhaps to be ahead again
        elif old == highest:
            best = _without(best, row)
        if total > highest and self._ahead is None and len(best):
            self._ahead = row
        elif total == highest:
            best = _with(best, row)
        elif total > highest or not len(best):
            self._ahead, best = None, None
        self._best = best


def _without(rows: npt.NDArray[np.intp], row: int) -> npt.NDArray[np.intp]:
    place = int(rows.searchsorted(row))
    rows[place:-1] = rows[place + 1 :]
    return rows[:-1]


def _with(rows: npt.NDArray[np.intp], row: int) -> npt.NDArray[np.intp]:
    place = int(rows.searchsorted(row))
    more = np.empty(len(rows) + 1, np.intp)
    more[:place], more[place], more[place + 1 :] = rows[:place], row, rows[place:]
    return more
