"""CEL's values in Python, and what holds for values of all types: names, equality, order, look-up.

int, float, str, bytes, bool, None, list and dict stand for themselves; `UInt`, `Duration`, `Timestamp`,
`Optional`, `TypeValue` and the extension types (`Quantity`, `Semver`, …) have classes of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from math import isfinite, isnan
from typing import Any, NamedTuple

from mooring.cel.cel_errors import CelError, NoSuchOverloadError, no_such_overload
from mooring.cel.syntax import UInt


class Duration(NamedTuple):
    nanoseconds: int


class Timestamp(NamedTuple):
    """A moment in UTC: nanoseconds since the epoch."""

    nanoseconds: int

    def in_zone(self, zone: Any) -> datetime:
        return datetime.fromtimestamp(self.nanoseconds // 10**9, zone)


class TypeValue(NamedTuple):
    name: str


class Optional:
    """A value that may be absent."""

    __slots__ = ("present", "value")

    def __init__(self, present: bool, value: Any = None) -> None:
        self.present = present
        self.value = value


NONE = Optional(False)


class DefaultMap(dict[str, Any]):
    """A map in which every look-up succeeds, with an empty map where there is no entry; membership, size
    and iteration are those of the entries. So are a device's attributes by domain."""

    __slots__ = ()


class LazyMap(dict[str, Any]):
    """A map whose values are functions, called on each look-up; so are the variables of a policy."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()


class StructValue(dict[str, Any]):
    """A value of a type with fields, such as `Object.spec{replicas: 1}`, without unset fields."""

    __slots__ = ("name",)

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.name = name


class Extension:
    """Base of the values that Kubernetes adds to the language, or that are compared in a way of their own."""

    __slots__ = ()
    type_name = ""
    native_name = ""  # as conversion errors write it

    def equals(self, other: Any) -> bool:
        """CEL's ==; `no such overload` for another type."""
        raise NotImplementedError


class TypedList(Extension, list[Any]):
    """Base of lists that are compared and added in a way of their own."""

    __slots__ = ()
    type_name = "list"

    def plus(self, other: list[Any]) -> list[Any]:
        """CEL's +."""
        raise NotImplementedError


_EMPTY: dict[str, Any] = {}
_NUMBERS = frozenset({int, float, UInt})
ORDERED = _NUMBERS | {str, bytes, bool, Duration, Timestamp}
_NAMES = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    DefaultMap: "map",
    LazyMap: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeValue: "type",
}
_GO_TYPES = {
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    Optional: "*types.Optional",
    TypeValue: "*types.Type",
}
_NATIVE_ERRORS = {
    int: "unsupported type conversion from 'int' to bool",
    UInt: "unsupported type conversion from 'uint' to bool",
    float: "type conversion error from Double to 'bool'",
    str: "unsupported native conversion from string to 'bool'",
    bytes: "type conversion error from Bytes to 'bool'",
    list: "type conversion error from list to 'bool'",
    dict: "type conversion error from map to 'bool'",
    DefaultMap: "type conversion error from map to 'bool'",
    type(None): "type conversion error from 'null_type' to 'bool'",
    Duration: "type conversion error from 'Duration' to 'bool'",
    Timestamp: "type conversion error from 'Timestamp' to 'bool'",
}


def type_name(value: Any) -> str:
    """The name of a value's type."""
    if isinstance(value, Extension):
        return value.type_name
    return value.name if type(value) is StructValue else _NAMES[type(value)]


def native_bool(value: Any) -> bool:
    """The result of a selector, which must be a bool."""
    if value is True or value is False:
        return value
    if isinstance(value, Extension):
        problem = f"type conversion error from '{value.native_name}' to 'bool'"
    else:
        problem = _NATIVE_ERRORS.get(
            type(value), f"unsupported native conversion from {type_name(value)} to 'bool'"
        )
    raise CelError(f"CEL result of type {type_name(value)} could not be converted to bool: {problem}")


def equal(a: Any, b: Any) -> bool:
    """CEL's ==: false for values of different types, except where the left one refuses to compare."""
    kind, other = type(a), type(b)
    if kind in _NUMBERS:
        return other in _NUMBERS and bool(a == b)
    if a is None or b is None:
        return a is b
    if isinstance(a, Extension):
        return a.equals(b)
    if kind is list:
        return isinstance(b, list) and len(a) == len(b) and all(map(_not_unequal, a, b))
    if isinstance(a, dict):
        if (kind is StructValue or other is StructValue) and type_name(a) != type_name(b):
            return False
        return isinstance(b, dict) and len(a) == len(b) and all(_same_entry(b, *entry) for entry in a.items())
    if kind is Optional:
        if other is not Optional or not (a.present and b.present):
            return other is Optional and a.present == b.present
        return equal(a.value, b.value)
    return kind is other and bool(a == b)


def _same_entry(entries: Mapping[Any, Any], key: Any, value: Any) -> bool:
    is_present, other = find(entries, key)
    return is_present and _not_unequal(value, other)


def _not_unequal(a: Any, b: Any) -> bool:
    """Whether nothing says that two items of lists or maps differ; cel-go ignores that it cannot compare."""
    try:
        return equal(a, b)
    except NoSuchOverloadError:
        return True


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1 for values that have an order."""
    kind, other = type(a), type(b)
    if kind in _NUMBERS and other in _NUMBERS:
        if (kind is float and isnan(a)) or (other is float and isnan(b)):
            raise CelError("NaN values cannot be ordered")
    elif kind is not other or kind not in (str, bytes, bool, Duration, Timestamp):
        raise no_such_overload()
    return int(a > b) - int(a < b)


def contains(container: Any, item: Any) -> bool:
    """CEL's `in`."""
    if isinstance(container, list):
        return any(equal_or_false(item, each) for each in container)
    if isinstance(container, dict):
        return find(container, item, default=False)[0]
    raise no_such_overload()


def equal_or_false(a: Any, b: Any) -> bool:
    try:
        return equal(a, b)
    except CelError:
        return False


def find(entries: Mapping[Any, Any], key: Any, default: bool = True) -> tuple[bool, Any]:
    """Whether a map has a key, and its value. Numeric keys are equal across types; `True` is not 1."""
    kind = type(key)
    if kind is str:
        if key in entries:
            return True, entries[key]
    elif kind in _NUMBERS or kind is bool:
        if kind is float and not key.is_integer():
            return False, None
        for own, value in entries.items():
            if (type(own) is bool) is (kind is bool) and own == key:
                return True, value
    if default and type(entries) is DefaultMap:
        return True, _EMPTY
    return False, None


def look_up(operand: Any, key: Any) -> Any:
    """`operand.key` and `operand[key]`; in an optional, an optional again."""
    if type(operand) is Optional:
        return look_up_optional(operand, key)
    if isinstance(operand, dict):
        is_present, value = find(operand, key)
        if is_present:
            return value
    elif isinstance(operand, list):
        index = list_index(key)
        if 0 <= index < len(operand):
            return operand[index]
        raise CelError(f"index out of bounds: {show(key)}")
    raise CelError(f"no such key: {show(key)}")


def look_up_optional(operand: Any, key: Any) -> Optional:
    """`operand.?key` and `operand[?key]`."""
    if type(operand) is Optional:
        if not operand.present:
            return operand
        operand = operand.value
    if isinstance(operand, dict):
        is_present, value = find(operand, key)
        return Optional(True, value) if is_present else NONE
    if isinstance(operand, list):
        index = list_index(key)
        return Optional(True, operand[index]) if 0 <= index < len(operand) else NONE
    return NONE


def has(operand: Any, field: str) -> bool:
    """The macro `has(operand.field)`."""
    if type(operand) is Optional:
        return look_up_optional(operand, field).present
    if isinstance(operand, list):
        list_index(field)
    return isinstance(operand, dict) and find(operand, field)[0]


def list_index(key: Any) -> int:
    kind = type(key)
    if kind is int or kind is UInt:
        return int(key)
    if kind is float:
        if key.is_integer():
            return int(key)
        raise CelError(f"unsupported index value {show(key)} in list")
    raise CelError(f"unsupported index type '{type_name(key)}' in list")


def elements(collection: Any) -> Sequence[Any]:
    """What a comprehension goes through: items, or keys."""
    if isinstance(collection, list):
        return collection
    if isinstance(collection, dict):
        return list(collection)
    raise CelError(f"got '{_go_type(collection)}', expected iterable type")


def pairs(collection: Any) -> Iterable[tuple[Any, Any]]:
    """What a comprehension of two variables goes through: index and item, or key and value."""
    if isinstance(collection, dict):
        return list(collection.items())
    if not isinstance(collection, list):
        raise CelError(f"unsupported comprehension range type: {_go_type(collection)}")
    return enumerate(collection)


def _go_type(value: Any) -> str:
    return f"cel.{value.native_name}" if isinstance(value, Extension) else _GO_TYPES[type(value)]


def show(value: Any) -> str:
    """A value as cel-go prints it in messages."""
    if value is True or value is False:
        return "true" if value else "false"
    if type(value) is float:
        return _show_double(value)
    return "null" if value is None else str(value)


def _show_double(value: float) -> str:
    """The shortest text that gives the same number, as Go writes it."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) + exponent - 1
    if value == 0 or -4 <= power < 6:
        return repr(value).removesuffix(".0")
    first, rest = digits[0], "".join(map(str, digits[1:]))
    return f"{'-' if sign else ''}{first}{'.' if rest else ''}{rest}e{power:+03d}"
