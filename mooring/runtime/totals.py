"""The total score of each row, and which rows have the highest."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import IntArray
from mooring.runtime.changes import Rows

BestRows: TypeAlias = "npt.NDArray[np.intp] | array[int]"


class Totals:
    """Totals by row. The rows with the highest are looked for when they are asked for, and then kept up to
    date while rows change one by one.

    A pod may make its node the only best one, until the next pod that goes there makes it less good again.
    So one row can be ahead of the `_best` of all others, which then need not be looked for again.
    """

    __slots__ = ("_ahead", "_best", "_highest", "values")

    def __init__(self, values: IntArray) -> None:
        self.values = values
        self._best: BestRows | None = None  # None: to be looked for
        self._highest = 0  # the total of those
        self._ahead: int | None = None  # the row with a higher one

    def best(self) -> BestRows:
        """The rows with the highest total, in order."""
        if self._ahead is not None:
            return array("q", (self._ahead,))
        if self._best is None:
            values = self.values
            highest = values[values.argmax(), ...]  # as an array, with which comparing is quicker
            self._highest = highest.item()
            self._best = (values == highest).nonzero()[0]
        return self._best

    def set(self, rows: Rows, totals: IntArray) -> None:
        self.values[rows] = totals
        self._best = self._ahead = None

    def set_one(self, row: int, total: int) -> None:
        old = self.values.item(row)
        self.values[row] = total
        if self._best is None or total == old:
            return
        best, highest = self._editable(self._best), self._highest
        if row == self._ahead:
            self._ahead = None  # perhaps to be ahead again
        elif old == highest:
            del best[bisect_left(best, row)]
        if total > highest and self._ahead is None and best:
            self._ahead = row
        elif total == highest:
            best.insert(bisect_left(best, row), row)
        elif total > highest or not best:
            self._ahead = self._best = None

    def _editable(self, best: BestRows) -> array[int]:
        """As an array that can grow and shrink in place."""
        if not isinstance(best, array):
            best = self._best = array("q", best.tobytes())
        return best
