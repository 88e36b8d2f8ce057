"""Completion indexes as the status of a Job lists them: "0-3,5,7,8"."""

from __future__ import annotations

from collections.abc import Iterable


def parse_indexes(text: str, completions: int) -> set[int]:
    """Return the indexes below the number of completions; invalid ones are skipped."""
    indexes: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if _is_index(first) and (not dash or _is_index(last)):
            indexes.update(range(int(first), min(int(last or first) + 1, completions)))
    return indexes


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def format_indexes(indexes: Iterable[int]) -> str:
    """The shortest list: runs of three and more by their ends."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_show(first, last) for first, last in runs)


def _show(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"
