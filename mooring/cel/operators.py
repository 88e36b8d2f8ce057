"""The operators that evaluate all their operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from mooring.cel import functions
from mooring.cel.cel_errors import NoSuchOverloadError
from mooring.cel.mismatches import operator_mismatch
from mooring.cel.scope import Scope
from mooring.cel.values import compare, contains, equal


def _relation(name: str, holds: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    def apply(a: Any, b: Any) -> bool:
        try:
            return holds(compare(a, b), 0)
        except NoSuchOverloadError:
            raise operator_mismatch(name, a) from None

    return apply


def _differ(a: Any, b: Any) -> bool:
    try:
        return not equal(a, b)
    except NoSuchOverloadError:  # values that cannot be compared are not equal
        return True


def _arithmetic(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    def apply(scope: Scope, *values: Any) -> Any:
        try:
            return compute(scope, *values)
        except NoSuchOverloadError:
            raise operator_mismatch(name, values[0]) from None

    return apply


COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": equal,
    "!=": _differ,
    "<": _relation("<", operator.lt),
    "<=": _relation("<=", operator.le),
    ">": _relation(">", operator.gt),
    ">=": _relation(">=", operator.ge),
    "in": lambda item, container: contains(container, item),
}

ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    name: _arithmetic(name, compute) for name, compute in functions.ARITHMETIC.items()
}
"""They take the scope first, as the functions of the library do."""
