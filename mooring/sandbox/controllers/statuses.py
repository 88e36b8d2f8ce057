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
    patch: dict[str, Any] = {}
    for field in _fields(type(new)):
        before, after = getattr(old, field.name), getattr(new, field.name)
        name = field.encode_name
        if name in always:
            patch[name] = msgspec.to_builtins(after)
        elif before != after:
            patch[name] = msgspec.to_builtins(after) if after or field.default is None else None
    return patch


@cache
def _fields(status: type[Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(status)
