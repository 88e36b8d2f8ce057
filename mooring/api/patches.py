"""JSON merge patch (RFC 7386)."""

from __future__ import annotations

from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch applied; null removes a key, and anything but an object replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif type(value) is dict:
            merged[key] = merge_patch(merged.get(key), value)
        else:
            merged[key] = value
    return merged
