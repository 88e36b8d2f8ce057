"""The functions and methods of the standard library and of the extensions that Kubernetes enables.

Each takes the scope first, then its arguments (for a method, the target first among them), and raises
`no such overload` for types that it is not defined for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from mooring.cel import authorization, lists, networks, quantities, semver, strings, times
from mooring.cel.cel_errors import CelError, no_such_overload
from mooring.cel.overloads import overloads
from mooring.cel.scope import Scope
from mooring.cel.syntax import UInt
from mooring.cel.values import NONE, Duration, Optional, Timestamp, TypedList, TypeValue, show, type_name

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1

TYPES = {
    name: TypeValue(name)
    for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type")
} | {
    name: TypeValue(name)
    for name in ("google.protobuf.Duration", "google.protobuf.Timestamp", "optional_type")
}


def map_key(key: Any) -> Any:
    """A key of a map literal."""
    if type(key) not in (str, int, UInt, bool, float):
        raise CelError(f"unsupported key type: {type_name(key)}")
    return key


# ---- arithmetic


def _whole(value: int, kind: type) -> int:
    if kind is UInt:
        if not 0 <= value <= UINT_MAX:
            raise CelError("unsigned integer overflow")
        return UInt(value)
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def _add(scope: Scope, a: Any, b: Any) -> Any:
    kind, other = type(a), type(b)
    if kind is other:
        if kind is int or kind is UInt:
            return _whole(int(a) + int(b), kind)
        if kind is float:
            return a + b
        if kind in (str, bytes, list):
            scope.spend((len(a) + len(b)) // 10)
            return a + b
    if isinstance(a, list) and isinstance(b, list):
        scope.spend((len(a) + len(b)) // 10)
        return a.plus(b) if isinstance(a, TypedList) else [*a, *b]
    return times.add(a, b)


def _subtract(scope: Scope, a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is type(b):
        if kind is int or kind is UInt:
            return _whole(int(a) - int(b), kind)
        if kind is float:
            return a - b
    return times.subtract(a, b)


def _multiply(scope: Scope, a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is type(b):
        if kind is int or kind is UInt:
            return _whole(int(a) * int(b), kind)
        if kind is float:
            return a * b
    raise no_such_overload()


def _divide(scope: Scope, a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is not type(b) or kind not in (int, UInt, float):
        raise no_such_overload()
    if kind is float:
        if b == 0:
            return (
                float("nan")
                if a == 0 or a != a
                else float("inf") * (1 if (a > 0) == (str(b)[0] != "-") else -1)
            )
        return a / b
    if b == 0:
        raise CelError("division by zero")
    quotient = abs(a) // abs(b)  # towards zero
    return _whole(quotient if (a < 0) == (b < 0) else -quotient, kind)


def _modulo(scope: Scope, a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is not type(b) or kind not in (int, UInt):
        raise no_such_overload()
    if b == 0:
        raise CelError("modulus by zero")
    rest = abs(a) % abs(b)  # with the sign of the dividend
    return _whole(-rest if a < 0 else rest, kind)


def _negate(scope: Scope, a: Any) -> Any:
    if type(a) is int:
        return _whole(-a, int)
    if type(a) is float:
        return -a
    if type(a) is Duration:
        return Duration(-a.nanoseconds)
    raise no_such_overload()


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _modulo,
    "neg": _negate,
}


# ---- conversions


def _conversion_error(value: Any, name: str) -> CelError:
    """For a text that is not a value of the type, or a value that cannot be converted at all."""
    if type(value) is not str:
        return no_such_overload()
    return CelError(f"type conversion error from 'string' to '{name}'")


def _to_int(scope: Scope, value: Any) -> int:
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is UInt:
        return _whole(int(value), int)
    if kind is float:
        if not INT_MIN < value < 2.0**63:
            raise CelError("integer overflow")
        return int(value)
    if kind is Timestamp:
        return int(value.nanoseconds // 10**9)
    if kind is Duration:
        return int(value.nanoseconds)
    if kind is str and strings.is_integer(value) and INT_MIN <= int(value) <= INT_MAX:
        return int(value)
    raise _conversion_error(value, "int")


def _to_uint(scope: Scope, value: Any) -> int:
    kind = type(value)
    if kind is UInt:
        return int.__new__(UInt, value)
    if kind is int:
        return _whole(value, UInt)
    if kind is float:
        if not 0 <= value < 2.0**64:
            raise CelError("unsigned integer overflow")
        return UInt(int(value))
    if kind is str and strings.is_integer(value) and value[0] not in "+-" and int(value) <= UINT_MAX:
        return UInt(int(value))
    raise _conversion_error(value, "uint")


def _to_double(scope: Scope, value: Any) -> float:
    kind = type(value)
    if kind in (int, UInt, float):
        return float(value)
    if kind is str and "_" not in value and value == value.strip():
        try:
            return float(value)
        except ValueError:
            pass
    raise _conversion_error(value, "double")


def _to_string(scope: Scope, value: Any) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    if kind in (int, UInt, float, bool):
        return show(value)
    if kind is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is Duration:
        return times.duration_text(value)
    if kind is Timestamp:
        return times.timestamp_text(value)
    if isinstance(value, networks.Address | networks.Network):
        return str(value)
    raise _conversion_error(value, "string")


def _to_bytes(scope: Scope, value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode()
    raise _conversion_error(value, "bytes")


def _to_bool(scope: Scope, value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str:
        if value in ("1", "t", "T", "TRUE", "true", "True"):
            return True
        if value in ("0", "f", "F", "FALSE", "false", "False"):
            return False
    raise _conversion_error(value, "bool")


def _size(scope: Scope, value: Any) -> int:
    if type(value) in (str, bytes) or isinstance(value, list | dict):
        return len(value)
    raise no_such_overload()


# ---- optional values


def _optional(value: Any) -> Optional:
    if type(value) is not Optional:
        raise no_such_overload()
    return value


def _opt_value(scope: Scope, value: Any) -> Any:
    if not _optional(value).present:
        raise CelError("optional.none() dereference")
    return value.value


def _of_non_zero(scope: Scope, value: Any) -> Optional:
    zero = value is None or (type(value) in (bool, int, UInt, float, str, bytes) and not value)
    return NONE if zero or (isinstance(value, list | dict) and not value) else Optional(True, value)


def _unwrap(scope: Scope, values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise no_such_overload()
    return [value.value for value in values if _optional(value).present]


def _end(position: int) -> Callable[[Scope, Any], Optional]:
    def evaluate(scope: Scope, values: Any) -> Optional:
        if not isinstance(values, list):
            raise no_such_overload()
        return Optional(True, values[position]) if values else NONE

    return evaluate


# ---- Kubernetes' comparable values


def _by_type(
    for_quantity: Callable[[int, int], Any], for_version: Callable[[Any, Any], Any]
) -> Callable[..., Any]:
    """A method that quantities and versions both have."""

    def evaluate(scope: Scope, a: Any, b: Any) -> Any:
        if type(a) is semver.Semver:
            return for_version(a.key, semver.of(b).key)
        return for_quantity(quantities.of(a).nano, quantities.of(b).nano)

    return evaluate


def _sign(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _version_part(index: int) -> Callable[..., Any]:
    return lambda scope, value: semver.of(value).numbers[index]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "jsonpatch.escapeKey": overloads(((str,), lambda key: key.replace("~", "~0").replace("/", "~1"))),
    "size": _size,
    "int": _to_int,
    "uint": _to_uint,
    "double": _to_double,
    "string": _to_string,
    "bytes": _to_bytes,
    "bool": _to_bool,
    "dyn": lambda scope, value: value,
    "type": lambda scope, value: TypeValue(type_name(value)),
    "matches": strings.matches,
    "duration": lambda scope, value: times.duration(value),
    "timestamp": lambda scope, value: times.timestamp(value),
    "optional.of": lambda scope, value: Optional(True, value),
    "optional.ofNonZeroValue": _of_non_zero,
    "optional.none": lambda scope: NONE,
    "optional.unwrap": _unwrap,
    "quantity": overloads(((str,), quantities.Quantity.parse)),
    "isQuantity": overloads(((str,), quantities.is_quantity)),
    "sign": lambda scope, value: _sign(quantities.of(value).nano, 0),
    "semver": overloads(((str,), semver.semver), ((str, bool), semver.semver)),
    "isSemver": overloads(((str,), semver.is_semver), ((str, bool), semver.is_semver)),
    **strings.FUNCTIONS,
    **lists.FUNCTIONS,
    **networks.FUNCTIONS,
}

METHODS: dict[str, Callable[..., Any]] = {
    "size": _size,
    "hasValue": lambda scope, value: _optional(value).present,
    "value": _opt_value,
    "unwrapOpt": _unwrap,
    "first": _end(0),
    "last": _end(-1),
    "compareTo": _by_type(_sign, _sign),
    "isGreaterThan": _by_type(operator.gt, operator.gt),
    "isLessThan": _by_type(operator.lt, operator.lt),
    "add": lambda scope, a, b: quantities.of(a).plus(b, 1),
    "sub": lambda scope, a, b: quantities.of(a).plus(b, -1),
    "isInteger": lambda scope, value: quantities.of(value).whole is not None,
    "asInteger": lambda scope, value: quantities.as_integer(value),
    "asApproximateFloat": lambda scope, value: quantities.of(value).nano / 10**9,
    "major": _version_part(0),
    "minor": _version_part(1),
    "patch": _version_part(2),
    **times.METHODS,
    **strings.METHODS,
    **lists.METHODS,
    **networks.METHODS,
    **authorization.METHODS,
}


_FOR_TEXT_AND_LISTS = ("indexOf", "lastIndexOf")


def _for_text_or_list(for_text: Callable[..., Any], for_list: Callable[..., Any]) -> Callable[..., Any]:
    """A method that both strings and lists have."""
    return lambda scope, target, *args: (for_list if isinstance(target, list) else for_text)(
        scope, target, *args
    )


METHODS |= {
    name: _for_text_or_list(strings.METHODS[name], lists.METHODS[name]) for name in _FOR_TEXT_AND_LISTS
}
