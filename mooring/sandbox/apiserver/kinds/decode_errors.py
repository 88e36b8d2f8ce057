"""kube-apiserver's messages for bodies that cannot be decoded. Computed only after decoding failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mooring.api.errors import child
from mooring.sandbox.apiserver.kinds.types import ListOf, MapOf, ObjectType, Scalar, Type

_ACCEPTED: dict[Scalar, tuple[type, ...]] = {
    Scalar.STRING: (str,),
    Scalar.BYTES: (str,),
    Scalar.INTEGER: (int,),
    Scalar.NUMBER: (int, float),
    Scalar.BOOLEAN: (bool,),
    Scalar.INT_OR_STRING: (int, str),
    Scalar.OBJECT: (dict,),
}
_GO_NAMES = {
    Scalar.STRING: "string",
    Scalar.BYTES: "[]uint8",
    Scalar.INTEGER: "int32",
    Scalar.NUMBER: "float64",
    Scalar.BOOLEAN: "bool",
    Scalar.INT_OR_STRING: "intstr.IntOrString",
    Scalar.OBJECT: "map[string]interface {}",
}


def mismatch(type: ObjectType, tree: Any) -> str | None:
    """Return the message about the first value of a wrong type, as Go's decoder words it."""
    return next(_mismatches(type, tree, type.name, ""), None)


def _mismatches(type: Type, value: Any, owner: str, path: str) -> Iterator[str]:
    if value is None:
        return
    if not _fits(type, value):
        found, expected = _json_name(value), _go_name(type)
        where = f"Go struct field {owner}.{path}" if path else "Go value"
        yield f"json: cannot unmarshal {found} into {where} of type {expected}"
    elif isinstance(type, ObjectType):
        for name, member in value.items():
            field = type.fields.get(name)
            if field is not None:
                yield from _mismatches(field.type, member, type.name, f"{path}.{name}".lstrip("."))
    elif isinstance(type, ListOf):
        for item in value:
            yield from _mismatches(type.item, item, owner, path)
    elif isinstance(type, MapOf):
        for member in value.values():
            yield from _mismatches(type.value, member, owner, path)


def _fits(type: Type, value: Any) -> bool:
    if isinstance(type, Scalar):
        accepted = _ACCEPTED.get(type)
        return accepted is None or (
            isinstance(value, accepted) and (type is Scalar.BOOLEAN or not isinstance(value, bool))
        )
    return isinstance(value, list if isinstance(type, ListOf) else dict)


def _json_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names = {str: "string", int: "number", float: "number", list: "array", dict: "object"}
    return names[value.__class__]


def _go_name(type: Type) -> str:
    if isinstance(type, ListOf):
        return f"[]{_go_name(type.item)}"
    if isinstance(type, MapOf):
        return f"map[string]{_go_name(type.value)}"
    if isinstance(type, ObjectType):
        return f"{type.module.rpartition('_')[2]}.{type.name}"
    return _GO_NAMES.get(type, "string")


def unknown_fields(type: Type, value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of members that the type does not have."""
    if isinstance(type, ObjectType) and isinstance(value, dict):
        for name, member in value.items():
            field = type.fields.get(name)
            if field is None:
                yield child(path, name)
            else:
                yield from unknown_fields(field.type, member, child(path, name))
    elif isinstance(type, ListOf) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(type.item, item, f"{path}[{index}]")
    elif isinstance(type, MapOf) and isinstance(value, dict) and isinstance(type.value, ObjectType):
        for key, member in value.items():
            yield from unknown_fields(type.value, member, child(path, key))


def duplicate_fields(data: bytes) -> list[str]:
    """Yield the paths of duplicate members."""
    if not _has_duplicates(data):
        return []
    found: list[str] = []
    _look_for_duplicates(json.loads(data, object_pairs_hook=_Pairs), "", found)
    return found


def _has_duplicates(data: bytes) -> bool:
    """Whether there are duplicates, quickly and without paths."""
    twice = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        tree = dict(pairs)
        twice = twice or len(tree) != len(pairs)
        return tree

    json.loads(data, object_pairs_hook=members)
    return twice


class _Pairs(list[tuple[str, Any]]):
    """Return the members of an object in order."""


def _look_for_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for name, member in value:
            if name in seen:
                found.append(child(path, name))
            seen.add(name)
            _look_for_duplicates(member, child(path, name), found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _look_for_duplicates(item, f"{path}[{index}]", found)
