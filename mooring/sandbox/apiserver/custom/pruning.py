"""Normalizing a value by its schema: prune unknown members, drop nulls, set defaults."""

from __future__ import annotations

from copy import deepcopy
from decimal import Decimal
from typing import Any, Final

from mooring.api.errors import child
from mooring.sandbox.apiserver.custom.schema import ABSENT, Schema
from mooring.sandbox.apiserver.errors import bad_request

META: Final = frozenset({"apiVersion", "kind", "metadata"})
"""Members that every resource has, whatever its schema says."""
_DEEPEST: Final = 100
LARGEST: Final = 3 * 1024 * 1024  # bytes of the defaults of one object


def prune(value: Any, schema: Schema | None, path: str = "", *, resource: bool = False) -> list[str]:
    """Remove members that the schema does not name; return their paths."""
    unknown: list[str] = []
    _prune(value, schema, path, resource, unknown)
    return unknown


def _prune(value: Any, schema: Schema | None, path: str, resource: bool, unknown: list[str]) -> None:
    if isinstance(value, dict):
        _prune_members(value, schema, path, resource or (schema is not None and schema.embedded), unknown)
    elif isinstance(value, list):
        items = None if schema is None else schema.items
        if items is None and schema is not None and schema.preserve:
            return
        for index, item in enumerate(value):
            _prune(item, items, f"{path}[{index}]", False, unknown)


def _prune_members(
    value: dict[str, Any], schema: Schema | None, path: str, resource: bool, unknown: list[str]
) -> None:
    for name in list(value):
        if resource and name in META:
            continue
        member = None if schema is None else schema.member(name)
        if member is not None or (schema is not None and schema.open):
            if isinstance(value[name], dict | list):
                _prune(value[name], member, child(path, name), False, unknown)
        elif schema is None or not schema.preserve:
            del value[name]
            unknown.append(child(path, name))


def drop_nulls(value: Any, schema: Schema | None, depth: int = 0) -> None:
    """Remove null members that the schema neither declares nullable nor defaults, and round integers that
    only a float can hold.

    Raises 400 for values nested too deeply: this visits everything, so later steps need not check.
    """
    if depth > _DEEPEST:
        raise bad_request(f"the object nests too deeply: more than {_DEEPEST} levels")
    if isinstance(value, dict):
        for name in list(value):
            node = None if schema is None else schema.member(name)
            member = value[name]
            if member.__class__ is int and not _is_int64(member):
                value[name] = as_float(member)
            elif member is None and node is not None and not node.nullable and node.default is ABSENT:
                del value[name]
            elif isinstance(member, dict | list):
                drop_nulls(member, node, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if item.__class__ is int and not _is_int64(item):
                value[index] = as_float(item)
            else:
                drop_nulls(item, None if schema is None else schema.items, depth + 1)


def _is_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63


def as_float(value: int) -> float:
    """Return an integer of more than 64 bits as Go reads it: a float, which it writes with all its digits."""
    return int(Decimal(repr(float(value)))) if abs(value) < 10**21 else float(value)


class TooManyDefaultsError(Exception):
    """Defaults make an object larger than any object may be."""


def fill_in(value: Any, schema: Schema) -> None:
    """Set members that are absent, or null and not nullable, to their defaults. Raises
    TooManyDefaultsError."""
    _Filling().fill_in(value, schema)


class _Filling:
    """Defaults of one object, as long as they are small: a body of empty items may be worth gigabytes."""

    def __init__(self) -> None:
        self._left = LARGEST

    def _default(self, schema: Schema) -> Any:
        self._left -= schema.default_size
        if self._left < 0:
            raise TooManyDefaultsError
        return deepcopy(schema.default)

    def fill_in(self, value: Any, schema: Schema) -> None:
        if isinstance(value, dict):
            for name in schema.defaulted:
                node = schema.property(name)
                if node is not None and (name not in value or (value[name] is None and not node.nullable)):
                    value[name] = self._default(node)
            for name, member in value.items():
                held = schema.member(name)
                if held is not None:
                    if member is None and not held.nullable and held.default is not ABSENT:
                        value[name] = member = self._default(held)
                    if isinstance(member, dict | list):
                        self.fill_in(member, held)
        elif isinstance(value, list) and schema.items is not None:
            for index, item in enumerate(value):
                if item is None and not schema.items.nullable and schema.items.default is not ABSENT:
                    value[index] = item = self._default(schema.items)
                self.fill_in(item, schema.items)
