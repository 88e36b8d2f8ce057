"""Growing NumPy columns, and the log of which rows changed."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt


class Column:
    """One value (or one in each of several lines) for each row, with room to grow.

    The table calls `grow`, `move` and `clear` on all its columns, so that rows stay dense: removing a node
    moves the last row into its place.
    """

    __slots__ = ("data", "fill")

    def __init__(self, capacity: int, dtype: npt.DTypeLike, fill: int = 0, lines: int | None = None) -> None:
        shape = (capacity,) if lines is None else (lines, capacity)
        self.fill = fill
        self.data: npt.NDArray[Any] = np.full(shape, fill, dtype)

    def grow(self, capacity: int) -> None:
        old = self.data
        self.data = np.full((*old.shape[:-1], capacity), self.fill, old.dtype)
        self.data[..., : old.shape[-1]] = old

    def move(self, source: int, target: int) -> None:
        self.data[..., target] = self.data[..., source]

    def clear(self, row: int) -> None:
        self.data[..., row] = self.fill


class ChangeLog:
    """The rows that changed, in order, so that each reader learns what is new since it last looked.

    Only the recent past is kept; a reader that comes later than that must look at every row.
    """

    __slots__ = ("_rows", "position")
    KEEP = 16_384

    def __init__(self) -> None:
        self._rows = array("q")
        self.position = 0  # how many changes there have been

    def add(self, row: int) -> None:
        rows = self._rows
        rows.append(row)
        self.position += 1
        if len(rows) > 2 * self.KEEP:
            del rows[: self.KEEP]

    def forget(self) -> None:
        """Have every reader look at every row."""
        self._rows = array("q")
        self.position += 1

    def since(self, position: int) -> array[int] | None:
        """Return the rows changed since a position (with repeats); None if the log does not reach back
        that far."""
        start = position - self.position + len(self._rows)
        return self._rows[start:] if start >= 0 else None
