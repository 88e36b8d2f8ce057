"""Statuses, written as merge patches of what changed."""

from __future__ import annotations

from collections.abc import Collection as Names
from functools import cache
from typing import Any

import msgspec

from mooring.api.meta import Struct


def status_changes(old: Struct, new: Struct, always: Names[str] = ()) -> dict[str, Any]:
    """The merge patch that makes one status of the other; empty where they are the same.

    Numbers of zero, empty texts and lists are left out of a status, unless their field is one that says None
    for "unknown" or is named in `always`, by its name on the wire: those are in every status.
    """
    if old == new:
        return {}
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)  # without defaults
    patch = {name: value for name, value in after.items() if name not in before or before[name] != value}
    for name in before.keys() - after.keys():
        patch[name] = None
    for name in always:
        patch[name] = after[name] if name in after else _defaults(type(new))[name]
    return {name: patch[name] for name in _defaults(type(new)) if name in patch}


@cache
def _defaults(status: type[Struct]) -> dict[str, Any]:
    """The defaults of fields by their names on the wire, in order."""
    return {
        field.encode_name: [] if field.default_factory is list else field.default
        for field in msgspec.structs.fields(status)
    }
