"""Rows that score alike under soft constraints.

Each constraint gives a row a small number, its code, and what it adds to the score follows from that. So
there are few different scores: they are worked out for each combination of codes, a cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.framework.nodes import BoolArray, IntArray
from mooring.plugins.arithmetic import MAX_SCORE, round_half_away, round_one
from mooring.plugins.pod_topology_spread.contributions import Contribution, Rows

UNSCORED = 0  # the cell of rows that lack a topology key they must have


def inverted(scores: IntArray, lowest: int, highest: int) -> IntArray:
    """Raw scores as 0 to 100, where fewer is better."""
    if highest == 0:
        return np.full_like(scores, MAX_SCORE)
    return (highest + lowest - scores) * MAX_SCORE // highest


def _combine(parts: Sequence[tuple[Rows, int]]) -> tuple[Rows, int]:
    """One number for each row, equal where all codes are equal; each code is below its part's size. Also how
    many numbers there can be."""
    combined, combinations = np.zeros(len(parts[0][0]), np.intp), 1
    for codes, size in parts:
        if combinations * size >= 2**63:  # which would overflow
            present, combined = np.unique(combined, return_inverse=True)
            combinations = len(present)
        combined = combined * size + codes
        combinations *= size
    return combined, combinations


class Cells:
    """The combinations of the parts' codes that rows have had, numbered, and the raw score of each."""

    def __init__(self, parts: Sequence[Contribution], length: int, scored: BoolArray | None) -> None:
        self._parts = parts
        self._tables = [part.table for part in parts]
        self._scored = scored  # None: all rows
        self._codes: list[tuple[int, ...]] = []  # by cell
        self._numbers: dict[tuple[int, ...], int] = {}
        self._having: list[dict[int, list[int]]] = []  # by part: the cells that have a code
        self._asked: Rows = np.zeros(0, np.intp)
        self._is_asked: BoolArray | None = None  # None: all are
        self._sizes: IntArray | None = None  # how many rows asked about are in each cell; None: to be counted
        self.of: Rows = np.zeros(length, np.intp)
        self.scores: IntArray = np.zeros(1, np.int64)

    def look(self, rows: Rows) -> None:
        """Take in which rows are asked about."""
        self._asked, self._sizes, self._is_asked = rows, None, None
        if len(rows) < len(self.of):
            self._is_asked = np.zeros(len(self.of), np.bool_)
            self._is_asked[rows] = True

    def normalized(self) -> IntArray:
        """The scores by cell, 0 to 100."""
        if self._sizes is None:
            self._sizes = np.bincount(self.of.take(self._asked), minlength=len(self.scores))
            self._sizes[UNSCORED] = 0
        counted = self.scores[self._sizes > 0]
        if not len(counted):
            return np.zeros_like(self.scores)
        normalized = inverted(self.scores, counted.item(counted.argmin()), counted.item(counted.argmax()))
        normalized[UNSCORED] = 0
        return normalized

    # ---- following the parts

    def update(self) -> None:
        """Follow what the last update of the parts changed."""
        moved = [part.moved for part in self._parts]
        changed = [part.changed for part in self._parts]
        if not self._codes or None in moved:
            self._number_all()
            self._score_all()
            return
        for rows in moved:
            for row in rows or ():
                self._move(row)
        if None in changed:
            self._score_all()
            return
        for having, codes in zip(self._having, changed, strict=True):
            for code in codes or ():
                for cell in having.get(code, ()):
                    self.scores[cell] = self._score(self._codes[cell])

    def _number_all(self) -> None:
        """Find out which combinations there are."""
        combined, combinations = _combine([(part.codes, len(part.table)) for part in self._parts])
        if combinations <= 4 * len(combined):  # quicker than sorting
            first = np.full(combinations, -1)
            first[combined[::-1]] = np.arange(len(combined))[::-1]
            present = np.flatnonzero(first >= 0)
            numbers = np.zeros(combinations, np.intp)
            numbers[present] = np.arange(len(present))
            self.of, first = numbers.take(combined) + 1, first[present]
        else:
            _, first, numbers = np.unique(combined, return_index=True, return_inverse=True)
            self.of = numbers + 1
        if self._scored is not None:
            self.of[~self._scored] = UNSCORED
        self._sizes = None
        self._codes, self._numbers = [()], {}
        self._having = [{} for _ in self._parts]
        for codes in zip(*(part.codes.take(first).tolist() for part in self._parts), strict=True):
            self._add(codes)

    def _add(self, codes: tuple[int, ...]) -> int:
        number = self._numbers[codes] = len(self._codes)
        self._codes.append(codes)
        for having, code in zip(self._having, codes, strict=True):
            having.setdefault(code, []).append(number)
        return number

    def _move(self, row: int) -> None:
        """Put a row whose code changed into its new cell."""
        before = self.of.item(row)
        if before == UNSCORED:
            return
        codes = tuple([part.codes.item(row) for part in self._parts])
        cell = self._numbers.get(codes)
        if cell is None:
            cell = self._add(codes)
            self.scores = np.append(self.scores, self._score(codes))
            if self._sizes is not None:
                self._sizes = np.append(self._sizes, 0)
        self.of[row] = cell
        if self._sizes is not None and (self._is_asked is None or self._is_asked.item(row)):
            self._sizes[before] -= 1
            self._sizes[cell] += 1

    # ---- scores

    def _score(self, codes: tuple[int, ...]) -> int:
        total = 0.0
        for table, code in zip(self._tables, codes):  # noqa: B905 - as many, and asked for often
            total += table[code]  # in the pod's order: floats do not add up the same in another
        return round_one(total)

    def _score_all(self) -> None:
        codes = np.array(self._codes[1:], np.intp).reshape(-1, len(self._parts))
        total = np.zeros(len(codes))
        for table, line in zip(self._tables, codes.T, strict=True):
            total += np.array(table).take(line)
        self.scores = np.append(np.int64(0), round_half_away(total))
