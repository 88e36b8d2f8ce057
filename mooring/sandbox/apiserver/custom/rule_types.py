"""The CEL types of schemas, and how large values of them can be: that bounds the cost of a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.cel.estimate import Path
from mooring.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)
from mooring.sandbox.apiserver.custom.escaping import escape

LARGEST_REQUEST: Final = 3 * 1024 * 1024
_LONGEST_TEXT: Final = LARGEST_REQUEST - 2
_TEXT: Final = {"type": "string"}
_METADATA: Final = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}


class Declaration(NamedTuple):
    """The type of a value, its largest size in characters, bytes or entries, and its fewest bytes in JSON."""

    type: Type
    most: int = 0
    least: int = 2
    fields: Mapping[str, Declaration] | None = None
    key: Declaration | None = None
    element: Declaration | None = None


_KEY: Final = Declaration(STRING)
_SCALARS: Final = {
    "boolean": Declaration(BOOL, least=4),
    "integer": Declaration(INT, least=1),
    "number": Declaration(DOUBLE, least=1),
}
_TIMES: Final = {
    "duration": Declaration(DURATION, 32, 3),
    "date": Declaration(TIMESTAMP, 12, 12),
    "date-time": Declaration(TIMESTAMP, 32, 21),
}


def with_metadata(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a resource with what all resources have."""
    properties = schema.get("properties") or {}
    metadata = properties.get("metadata") or {}
    names = metadata.get("properties") or {}
    texts = (
        properties.get("kind"),
        properties.get("apiVersion"),
        names.get("name"),
        names.get("generateName"),
    )
    if metadata.get("type") == "object" and all(one and one.get("type") == "string" for one in texts):
        return schema
    own = {"kind": _TEXT, "apiVersion": _TEXT, "metadata": _METADATA}
    return {**schema, "properties": {**properties, **own}}


def declare(schema: Mapping[str, Any], name: str, *, resource: bool) -> Declaration | None:
    """Return the type of values of a schema; None if rules cannot see them. Objects are named by their
    place."""
    if schema.get("x-kubernetes-int-or-string"):
        longest = schema.get("maxLength")
        return Declaration(DYN, _LONGEST_TEXT if longest is None else 4 * max(longest, 0), 1)
    if resource:
        schema = with_metadata(schema)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema, name)
    if kind == "object":
        return _object(schema, name)
    return _text(schema) if kind == "string" else _SCALARS.get(kind or "")


def _below(schema: Mapping[str, Any], name: str) -> Declaration | None:
    return declare(schema, name, resource=bool(schema.get("x-kubernetes-embedded-resource")))


def _list(schema: Mapping[str, Any], name: str) -> Declaration | None:
    items = schema.get("items")
    element = _below(items, f"{name}.@idx") if isinstance(items, dict) else None
    if element is None:
        return None
    limit = schema.get("maxItems")
    most = (LARGEST_REQUEST - 2) // (element.least + 1) if limit is None else max(limit, 0)
    return Declaration(list_of(element.type), most, element=element)


def _object(schema: Mapping[str, Any], name: str) -> Declaration | None:
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        element = _below(values, f"{name}.@elem")
        if element is None:
            return None
        limit = schema.get("maxProperties")
        most = (LARGEST_REQUEST - 2) // (element.least + 6) if limit is None else max(limit, 0)
        return Declaration(map_of(STRING, element.type), most, key=_KEY, element=element)
    fields: dict[str, Declaration] = {}
    required = frozenset(schema.get("required") or ())
    least = 2
    for property, inner in (schema.get("properties") or {}).items():
        identifier = escape(property)
        declared = _below(inner, f"{name}.{identifier}")
        if declared is None:
            continue
        if identifier is not None:
            fields[identifier] = declared
        if property in required and inner.get("default") is None:
            least += len(property.encode()) + declared.least + 4
    return Declaration(Type(name), least=least, fields=fields)


def _text(schema: Mapping[str, Any]) -> Declaration:
    form, longest = schema.get("format"), schema.get("maxLength")
    if form in _TIMES:
        return _TIMES[form]
    if form == "byte":
        return Declaration(BYTES, _LONGEST_TEXT if longest is None else max(longest, 0))
    if longest is not None:
        return Declaration(STRING, 4 * max(longest, 0))
    choices = [len(one.encode()) for one in schema.get("enum") or () if isinstance(one, str)]
    return Declaration(STRING, max(choices, default=0) if schema.get("enum") else _LONGEST_TEXT)


def types_in(declaration: Declaration) -> dict[str, Mapping[str, Type]]:
    """Return the fields of all types with fields in a declaration."""
    found: dict[str, Mapping[str, Type]] = {}
    left = [declaration]
    while left:
        one = left.pop()
        if one.fields is not None:
            found[one.type.name] = {name: field.type for name, field in one.fields.items()}
            left += one.fields.values()
        if one.element is not None:
            left.append(one.element)
    return found


def size_at(declaration: Declaration, path: Path) -> int | None:
    """Return the largest size of what a path leads to from `self`; None if it is not known."""
    node: Declaration | None = declaration
    for step in path[1:]:
        if node is None:
            return None
        if step in ("@items", "@values"):
            node = node.element
        elif step == "@keys":
            node = node.key
        else:
            node = (node.fields or {}).get(step)
    return None if node is None else node.most
