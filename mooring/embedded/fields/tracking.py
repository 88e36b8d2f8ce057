"""Keeping managedFields up to date on writes that are not applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.embedded.objects import Tree

if TYPE_CHECKING:
    from mooring.embedded.verbs.write import Write


def track(write: Write, obj: Tree, old: Tree | None) -> None:
    """Record that this write's manager owns what it changed. Until that is done, what was known stays."""
    known = None if old is None else old["metadata"].get("managedFields")
    if known:
        obj["metadata"]["managedFields"] = known
    else:
        obj["metadata"].pop("managedFields", None)
