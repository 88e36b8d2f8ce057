"""Leaves of the schemas of definitions, which are almost all of a large one: walks over it skip them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SCALARS: Final = frozenset({"boolean", "integer", "number", "string"})
_MEMBERS: Final = frozenset(
    {
        "description", "enum", "example", "exclusiveMaximum", "exclusiveMinimum", "format", "maxLength",
        "maximum", "minLength", "minimum", "multipleOf", "nullable", "title", "type",
    }
)  # fmt: skip


def is_leaf(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema is that of a scalar, with constraints at most that are never invalid."""
    return schema.get("type") in SCALARS and schema.keys() <= _MEMBERS
