"""kube-apiserver's messages for bodies that cannot be decoded. Computed only after decoding failed."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from typing import Any

from mooring.api.errors import child
from mooring.sandbox.apiserver.kinds.types import ListOf, MapOf, ObjectType, Scalar, Type

_ACCEPTED: dict[Scalar, tuple[type, ...]] = {
    Scalar.STRING: (str,),
    Scalar.BYTES: (str,),
    Scalar.INTEGER: (int,),
    Scalar.LONG: (int,),
    Scalar.NUMBER: (int, float),
    Scalar.BOOLEAN: (bool,),
    Scalar.INT_OR_STRING: (int, str),
    Scalar.OBJECT: (dict,),
}
_GO_NAMES = {
    Scalar.STRING: "string",
    Scalar.BYTES: "[]uint8",
    Scalar.INTEGER: "int32",
    Scalar.LONG: "int64",
    Scalar.NUMBER: "float64",
    Scalar.BOOLEAN: "bool",
    Scalar.INT_OR_STRING: "intstr.IntOrString",
    Scalar.OBJECT: "map[string]interface {}",
}


_NUMBERS = (Scalar.INTEGER, Scalar.LONG, Scalar.NUMBER)
_BITS = {Scalar.INTEGER: 32, Scalar.LONG: 64, Scalar.INT_OR_STRING: 32}


class Float(float):
    """A number with the text that it was written as."""

    text: str

    def __new__(cls, text: str) -> Float:
        number = super().__new__(cls, text)
        number.text = text
        return number


def too_large(body: bytes) -> str | None:
    """Return the first number of a JSON body that no float64 can hold, as it is written there."""
    literals: list[str] = []

    def note(text: str) -> float:
        if math.isinf(float(text)):
            literals.append(text)
        return 0.0

    with contextlib.suppress(ValueError, RecursionError):  # there may be worse after the number
        json.loads(body, parse_float=note)
    return literals[0] if literals else None


def parse(body: bytes) -> Any:
    """Return the tree of a JSON body that is wrong somewhere; numbers that no type can hold are kept."""
    return json.loads(body, parse_float=Float)


def mismatch(type: ObjectType, tree: Any) -> str | None:
    """Return the message about the first value of a wrong type, as Go's decoder words it."""
    return next(_mismatches(type, tree, type.name, ""), None)


def _mismatches(type: Type, value: Any, owner: str, path: str) -> Iterator[str]:
    if value is None:
        return
    if type is Scalar.INT_OR_STRING and _json_name(value) == "number":
        type = Scalar.INTEGER
    if not _fits(type, value):
        actual, expected = _json_name(value), _go_name(type)
        if actual == "number" and type in _NUMBERS:  # of the right kind, but not one of Go's type
            actual = f"number {value.text if isinstance(value, Float) else value}"
        where = f"Go struct field {owner}.{path}" if path else "Go value"
        yield f"json: cannot unmarshal {actual} into {where} of type {expected}"
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
        if accepted is None:
            return True
        if isinstance(value, bool):
            return type is Scalar.BOOLEAN
        if isinstance(value, int) and type in _BITS:
            return -(1 << _BITS[type] - 1) <= value < 1 << _BITS[type] - 1
        return isinstance(value, accepted) and not (isinstance(value, float) and math.isinf(value))
    return isinstance(value, list if isinstance(type, ListOf) else dict)


def _json_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return {str: "string", list: "array", dict: "object"}[value.__class__]


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
    paths: list[str] = []
    _look_for_duplicates(json.loads(data, object_pairs_hook=_Pairs), "", paths)
    return paths


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


def _look_for_duplicates(value: Any, path: str, paths: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for name, member in value:
            if name in seen:
                paths.append(child(path, name))
            seen.add(name)
            _look_for_duplicates(member, child(path, name), paths)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _look_for_duplicates(item, f"{path}[{index}]", paths)
