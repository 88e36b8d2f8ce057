"""Differences between two trees, for messages about forbidden changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.api.errors import child
from mooring.sandbox.apiserver.errors import show

_MOST = 20


def difference(old: Any, new: Any) -> str:
    """Return the changed values, one line with the old and one with the new value of each."""
    lines = list(_lines("", old, new))
    more = [f"  … and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return "\n".join([*lines[:_MOST], *more])


def _lines(path: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _lines(child(path, name), old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _lines(f"{path}[{index}]", before, after)
    else:
        if old is not None:
            yield f"- {path}: {show(old)}"
        if new is not None:
            yield f"+ {path}: {show(new)}"
