"""Values of custom objects as rules see them, by their schema."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mooring.cel import CelError, times
from mooring.cel.values import Duration, Extension, Timestamp, TypedList, equal
from mooring.sandbox.apiserver.custom.escaping import escape
from mooring.sandbox.apiserver.custom.rule_types import with_metadata
from mooring.sandbox.apiserver.objects import encode_json

_SECOND: Final = 10**9
_WORDS: Final = {
    "ns": 1, "nano": 1, "us": 10**3, "µs": 10**3, "micro": 10**3, "ms": 10**6, "milli": 10**6,
    "s": _SECOND, "sec": _SECOND, "m": 60 * _SECOND, "min": 60 * _SECOND,
    "h": 3600 * _SECOND, "hr": 3600 * _SECOND, "hour": 3600 * _SECOND,
    "d": 86400 * _SECOND, "day": 86400 * _SECOND,
    "w": 604800 * _SECOND, "wk": 604800 * _SECOND, "week": 604800 * _SECOND,
}  # fmt: skip
_WORDY: Final = re.compile(rf"(\d+)\s*({'|'.join(sorted(_WORDS, key=len, reverse=True))})", re.IGNORECASE)


class TooCostlyError(Exception):
    """Rules, or the values that they see, cost more than is allowed on the event loop."""


class ObjectValue(Extension, dict[str, Any]):
    """An object with properties: known fields that are not null, by their identifiers or, if they have none,
    their names. `raw` is all of it."""

    __slots__ = ("_known", "raw")
    type_name = "map"

    def __init__(self, fields: Mapping[str, Any], raw: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.raw = raw
        self._known = known

    def equals(self, other: Any) -> bool:
        """Fields that the schema does not know are compared only if both have them."""
        if not isinstance(other, ObjectValue) or len(self.raw) != len(other.raw):
            return False
        for name, value in self.raw.items():
            if name in self._known:
                key = escape(name) or name
                if (key in self) is not (key in other) or (key in self and not _same(self[key], other[key])):
                    return False
            elif name in other.raw and value != other.raw[name]:
                return False
        return True


class Preserved(Extension):
    """A value without a type, which can only be compared."""

    __slots__ = ("_value",)
    type_name = "unknown"

    def __init__(self, value: Any) -> None:
        self._value = value

    def equals(self, other: Any) -> bool:
        return isinstance(other, Preserved) and bool(self._value == other._value)


class SetList(TypedList):
    """A list of the type `set`: the order of its items does not matter."""

    __slots__ = ()

    def equals(self, other: Any) -> bool:
        if not isinstance(other, list) or len(self) != len(other):
            return False
        own = set(map(_identity, self))
        return all(_identity(item) in own for item in other)

    def plus(self, other: list[Any]) -> list[Any]:
        union = {_identity(item): item for item in self}
        return SetList([*self, *(item for item in _new(union, other))])


def _new(present: dict[object, Any], items: Sequence[Any]) -> list[Any]:
    found = []
    for item in items:
        if _identity(item) not in present:
            present[_identity(item)] = item
            found.append(item)
    return found


class MapList(TypedList):
    """A list of the type `map`: items are found by their keys, whatever their order."""

    __slots__ = ("_keys",)

    def __init__(self, items: Sequence[Any], keys: Sequence[str]) -> None:
        super().__init__(items)
        self._keys = keys

    def _key(self, item: Any) -> object:
        """Return the keys of an item. Those with escaped names are not found, as in Kubernetes."""
        members = item.raw if isinstance(item, ObjectValue) else item
        return tuple(_identity(members.get(key)) for key in self._keys)

    def equals(self, other: Any) -> bool:
        if not isinstance(other, list) or len(self) != len(other):
            return False
        own = {self._key(item): item for item in self}
        return all(self._key(item) in own and _same(own[self._key(item)], item) for item in other)

    def plus(self, other: list[Any]) -> list[Any]:
        """Items of the other list replace those with the same keys; the rest is appended."""
        merged = {self._key(item): item for item in self}
        merged.update((self._key(item), item) for item in other)
        return MapList(list(merged.values()), self._keys)


def _identity(value: Any) -> object:
    return (type(value), value) if isinstance(value, str | int | float | bytes) else encode_json(value)


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal. A value that cannot be had is an error of the comparison."""
    for value in (a, b):
        if isinstance(value, CelError):
            raise value
    return equal(a, b)


class Values:
    """Values of one object, converted once for all rules that see them."""

    def __init__(self, allowance: int) -> None:
        self._left = allowance
        self.has_errors = False
        """Whether there are values that do not fit their schema."""
        self._converted: dict[tuple[int, int], tuple[Any, Any, Any]] = {}

    def convert(self, value: Any, schema: Mapping[str, Any], *, resource: bool = False) -> Any:
        """Return the value as CEL sees it. What does not fit its schema is a CelError in its place. Raises
        TooCostlyError for more values than allowed."""
        self._left -= 1
        if self._left < 0:
            raise TooCostlyError
        key = (id(value), id(schema))
        if key in self._converted:
            return self._converted[key][0]
        if isinstance(value, dict | list):
            converted = self._container(value, schema, resource)
            self._converted[key] = (converted, value, schema)  # kept, so that the ids stay theirs
        else:
            converted = _scalar(value, schema)
        if isinstance(converted, CelError):
            self.has_errors = True
        return converted

    def _container(self, value: Any, schema: Mapping[str, Any], resource: bool) -> Any:
        if schema.get("x-kubernetes-int-or-string"):
            return CelError("invalid data, expected XIntOrString value to be either a string or integer")
        kind = schema.get("type")
        if kind == "object" and isinstance(value, dict):
            return self._object(value, schema, resource)
        if kind == "array" and isinstance(value, list):
            return self._list(value, schema)
        if not kind and schema.get("x-kubernetes-preserve-unknown-fields"):
            return Preserved(value)
        return _misfit(value, schema)

    def _object(self, value: dict[str, Any], schema: Mapping[str, Any], resource: bool) -> Any:
        values = schema.get("additionalProperties")
        if resource or schema.get("x-kubernetes-embedded-resource"):
            schema = with_metadata(schema)
        known = schema.get("properties") or {}
        if known or not isinstance(values, dict):
            fields = {
                escape(name) or name: self.convert(member, known[name])
                for name, member in value.items()
                if member is not None and name in known
            }
            return ObjectValue(fields, value, known)
        return {name: self.convert(member, values) for name, member in value.items()}

    def _list(self, value: list[Any], schema: Mapping[str, Any]) -> Any:
        items = schema.get("items")
        if not isinstance(items, dict):
            return CelError("invalid array type, expected Items with a non-empty Schema")
        converted = [self.convert(item, items) for item in value]
        list_type = schema.get("x-kubernetes-list-type")
        if list_type == "set":
            return SetList(converted)
        if list_type == "map":
            keys = schema.get("x-kubernetes-list-map-keys") or ()
            return MapList(converted, [escape(key) or key for key in keys])
        return converted


def _scalar(value: Any, schema: Mapping[str, Any]) -> Any:
    if value is None:
        nullable = schema.get("nullable")
        return None if nullable else CelError("invalid data, got null for schema with nullable=false")
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, str) or type(value) is int:
            return value
        return CelError("invalid data, expected XIntOrString value to be either a string or integer")
    kind = schema.get("type")
    if kind == "string" and isinstance(value, str):
        parse = _FORMATS.get(schema.get("format") or "")
        return value if parse is None else parse(value)
    if kind == "number" and type(value) in (int, float):
        return float(value)
    if (kind == "integer" and type(value) is int) or (kind == "boolean" and type(value) is bool):
        return value
    if not kind and schema.get("x-kubernetes-preserve-unknown-fields"):
        return Preserved(value)
    return _misfit(value, schema)


_EXPECTED: Final = {"string": "string", "number": "float", "integer": "int", "boolean": "bool"}
_GO_TYPES: Final = {
    str: "string", int: "int64", float: "float64", bool: "bool",
    dict: "map[string]interface {}", list: "[]interface {}",
}  # fmt: skip


def _misfit(value: Any, schema: Mapping[str, Any]) -> CelError:
    kind = schema.get("type") or ""
    if kind in _EXPECTED:
        return CelError(f"invalid data, expected {_EXPECTED[kind]}, got {_GO_TYPES[type(value)]}")
    what = {"object": "a map", "array": "an array"}.get(kind, "a value")
    return CelError(f"invalid data, expected {what} for the provided schema with type={kind}")


# ---- formats of strings ---------------------------------------------------------------------------


def _duration(text: str) -> Duration | CelError:
    try:
        return times.duration(text)
    except CelError:
        parts = _WORDY.findall(text)
    if not parts:
        return CelError(f"Invalid duration {text}: unable to parse {text} as duration")
    return Duration(sum(int(number) * _WORDS[unit.lower()] for number, unit in parts))


def _date(text: str) -> Timestamp | CelError:
    try:
        return times.timestamp(f"{text}T00:00:00Z")
    except CelError:
        return CelError(f"Invalid date formatted string {text}")


def _date_time(text: str) -> Timestamp | CelError:
    try:
        return times.timestamp(text.upper())
    except CelError:
        return CelError(f"Invalid date-time formatted string {text}")


def _bytes(text: str) -> bytes | CelError:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return CelError(f"Invalid byte formatted string {text}")


_FORMATS: Final[Mapping[str, Callable[[str], Any]]] = {
    "duration": _duration,
    "date": _date,
    "date-time": _date_time,
    "byte": _bytes,
}
