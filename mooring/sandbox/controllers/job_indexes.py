"""Completion indexes as the status of a Job lists them: "0-3,5,7,8"."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain

Run = tuple[int, int]
"""The first index, and the one after the last."""


class IndexSet:
    """A set of indexes, held as runs: a few characters from a client can name a billion of them."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs = _merge(runs)
        self._starts = [start for start, _ in self._runs]

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexSet:
        return cls((index, index + 1) for index in indexes)

    def __len__(self) -> int:
        return sum(end - start for start, end in self._runs)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexSet) and self._runs == other._runs

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self._starts, index)
        return at > 0 and index < self._runs[at - 1][1]

    def __or__(self, other: IndexSet) -> IndexSet:
        return IndexSet(chain(self._runs, other._runs))

    def __and__(self, other: IndexSet) -> IndexSet:
        return IndexSet(_overlaps(self._runs, other._runs))

    def missing(self, below: int) -> Iterator[int]:
        """Yield the indexes below a number that are not in the set."""
        start = 0
        for first, end in self._runs:
            yield from range(start, min(first, below))
            start = end
        yield from range(start, below)

    def __str__(self) -> str:
        """Return the shortest list: runs of three and more by their ends."""
        return ",".join(_show(start, end - 1) for start, end in self._runs)


def parse_indexes(text: str, completions: int) -> IndexSet:
    """Return the indexes below the number of completions; invalid ones are skipped."""
    return IndexSet(_parse(text, completions))


def _parse(text: str, completions: int) -> Iterator[Run]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if _is_index(first) and (not dash or _is_index(last)):
            yield int(first), min(int(last or first) + 1, completions)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10


def _merge(runs: Iterable[Run]) -> list[Run]:
    """Return runs in order, joined where they overlap or touch."""
    merged: list[Run] = []
    for start, end in sorted(runs):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _overlaps(left: list[Run], right: list[Run]) -> Iterator[Run]:
    at = other = 0
    while at < len(left) and other < len(right):
        yield max(left[at][0], right[other][0]), min(left[at][1], right[other][1])
        if left[at][1] < right[other][1]:
            at += 1
        else:
            other += 1


def _show(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"
