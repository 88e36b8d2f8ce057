"""Objects as the API server's Go structs: the form in which its messages show whole values."""

from __future__ import annotations

from typing import Any

from mooring.sandbox.apiserver.kinds.types import ListOf, MapOf, ObjectType, Scalar, Type
from mooring.sandbox.apiserver.kinds.wire import Zero, zeros
from mooring.sandbox.apiserver.objects import Tree

_NUMBERS = (Scalar.INTEGER, Scalar.LONG, Scalar.NUMBER)
_ACRONYMS = {"cel": "CEL", "uid": "UID", "ips": "IPs"}


def go_form(type: ObjectType, tree: Tree) -> Tree:
    """Return a value with the names of Go's fields, and with the zeros of those that are absent."""
    marks = zeros(str(type)) or {}
    return {
        _ACRONYMS.get(name, name[:1].upper() + name[1:]): _value(type.fields[name].type, tree.get(name), mark)
        for name, mark in marks.items()
    }


def _value(type: Type, value: Any, zero: Zero) -> Any:
    if value is None:
        return None if zero in (Zero.DISTINCT, Zero.NULL) else _zero(type)
    if isinstance(type, ObjectType):
        return go_form(type, value)
    if isinstance(type, ListOf):
        return [_value(type.item, item, zero) for item in value]
    if isinstance(type, MapOf):
        return {key: _value(type.value, item, zero) for key, item in value.items()}
    return value


def _zero(type: Type) -> Any:
    if isinstance(type, ObjectType):
        return go_form(type, {})
    if type in _NUMBERS:
        return 0
    if type is Scalar.BOOLEAN:
        return False
    return "" if type is Scalar.STRING else None
