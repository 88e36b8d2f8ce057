"""Symbolic links: where a path leads that passes through some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_LINKS: Final = 40  # that one path may pass through, as on Linux


def resolve(path: str, read_link: Callable[[str], str | None], *, follow: bool = True) -> str | None:
    """Return an absolute path without links, `.` and `..`; None if they lead in a circle. `read_link` returns
    what a path leads to, None if it is not a link. Without `follow`, the last link stays."""
    resolved: list[str] = []
    left, links = path.split("/")[::-1], 0
    while left:
        name = left.pop()
        if name == "..":
            del resolved[-1:]
        if name in ("", ".", ".."):
            continue
        resolved.append(name)
        target = read_link(f"/{'/'.join(resolved)}") if left or follow else None
        if target is None:
            continue
        links += 1
        if links > MOST_LINKS:
            return None
        if target.startswith("/"):
            resolved.clear()
        else:
            resolved.pop()
        left += target.split("/")[::-1]
    return f"/{'/'.join(resolved)}"
