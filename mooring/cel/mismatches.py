"""How cel-go names a function or operator that is not defined for the types of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.cel.cel_errors import NoSuchOverloadError, no_such_overload
from mooring.cel.syntax import Literal, Node, UInt
from mooring.cel.values import ORDERED, Duration, Timestamp, type_name

# Some are built in: the error of their own type check has no name.
_UNNAMED = frozenset({"contains", "startsWith", "endsWith", "matches"})
_WITH_PATTERN = frozenset({"find", "findAll"})  # neither has that of a pattern that is compiled in advance
_WITHOUT_TYPES = frozenset({"size", "sort"})

# Values of these types are asked themselves, whatever the function is, and their answer has no name.
_RECEIVERS = frozenset({str, Duration, Timestamp})
_NUMBERS = frozenset({int, UInt, float})
_OPERANDS: dict[str, frozenset[type]] = {
    "+": _NUMBERS | _RECEIVERS | {bytes, list},
    "-": _NUMBERS | _RECEIVERS,
    "*": _NUMBERS | _RECEIVERS,
    "/": _NUMBERS | _RECEIVERS,
    "%": _RECEIVERS | {int, UInt},
    "neg": _RECEIVERS | {bool, int, float},
    **dict.fromkeys(("<", "<=", ">", ">="), ORDERED),
}


def naming(name: str, function: Callable[..., Any], args: tuple[Node, ...]) -> Callable[..., Any]:
    """The function, with its name in errors about types where cel-go has it."""
    if name in _UNNAMED or (name in _WITH_PATTERN and any(isinstance(arg, Literal) for arg in args[1:2])):
        return function

    def call(scope: Any, *values: Any) -> Any:
        try:
            return function(scope, *values)
        except NoSuchOverloadError:
            raise _function_mismatch(name, values) from None

    return call


def _function_mismatch(name: str, values: tuple[Any, ...]) -> NoSuchOverloadError:
    if name in _WITHOUT_TYPES:
        return no_such_overload("" if type(values[0]) in _RECEIVERS else name)
    if name == "containsIP" and type_name(values[0]) == "net.CIDR" and type(values[1]) is str:
        return no_such_overload()  # not an address
    if name == "flatten":
        return no_such_overload(f"{type_name(values[0])}.flatten()")
    return no_such_overload(f"{name}({', '.join(map(type_name, values))})")


def operator_mismatch(name: str, operand: Any) -> NoSuchOverloadError:
    """For an operator and its first operand, whose type may not have the operator at all."""
    if type(operand) in _OPERANDS[name]:
        return no_such_overload()
    return no_such_overload("-_" if name == "neg" else f"_{name}_")
