"""Types of CEL expressions as cel-go writes them, and the overloads of operators and functions.

A type is `dyn` where it is not certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

DYNAMIC: Final = "dyn"
ANY: Final = "any"  # of an attribute
BOOL: Final = "bool"
INT: Final = "int"
TEXT: Final = "string"
NULL: Final = "null"
QUANTITY: Final = "kubernetes.Quantity"
SEMVER: Final = "kubernetes.Semver"
DURATION: Final = "duration"
TIMESTAMP: Final = "timestamp"
UNKNOWN: Final = frozenset({DYNAMIC, ANY})
AUTHORIZER: Final = "kubernetes.authorization.Authorizer"
PATH_CHECK: Final = "kubernetes.authorization.PathCheck"
GROUP_CHECK: Final = "kubernetes.authorization.GroupCheck"
RESOURCE_CHECK: Final = "kubernetes.authorization.ResourceCheck"
DECISION: Final = "kubernetes.authorization.Decision"
SIMPLE: Final = (BOOL, TEXT, INT, "uint", "double", "bytes")

Overloads = Sequence[tuple[Sequence[str], str]]
"""The types of the arguments, for methods with the target first, and of the result."""

_NUMBERS: Final = (INT, "uint", "double")
_SAME: Final = [([t, t], t) for t in _NUMBERS]
_ORDER: Final = [
    *(([t, t], BOOL) for t in (BOOL, TEXT, "bytes", DURATION, TIMESTAMP)),
    *(([a, b], BOOL) for a in _NUMBERS for b in _NUMBERS),
]
OPERATORS: Final[Mapping[str, Overloads]] = {
    **dict.fromkeys(("<", "<=", ">", ">="), _ORDER),
    "+": [
        *_SAME,
        ([TEXT, TEXT], TEXT),
        (["bytes", "bytes"], "bytes"),
        ([DURATION, DURATION], DURATION),
        ([DURATION, TIMESTAMP], TIMESTAMP),
        ([TIMESTAMP, DURATION], TIMESTAMP),
        (["list(dyn)", "list(dyn)"], DYNAMIC),
    ],
    "-": [
        *_SAME,
        ([DURATION, DURATION], DURATION),
        ([TIMESTAMP, DURATION], TIMESTAMP),
        ([TIMESTAMP, TIMESTAMP], DURATION),
    ],
    "*": _SAME,
    "/": _SAME,
    "%": _SAME[:2],
    "!": [([BOOL], BOOL)],
    "neg": [([t], t) for t in (INT, "double", DURATION)],
}


def _conversions(result: str, *types: str) -> Overloads:
    return [([t], result) for t in (result, *types)]


FUNCTIONS: Final[Mapping[str, Overloads]] = {
    "quantity": [([TEXT], QUANTITY)],
    "isQuantity": [([TEXT], BOOL)],
    "sign": [([QUANTITY], INT)],
    "semver": [([TEXT], SEMVER), ([TEXT, BOOL], SEMVER)],
    "isSemver": [([TEXT], BOOL), ([TEXT, BOOL], BOOL)],
    "isIP": [([TEXT], BOOL)],
    "isCIDR": [([TEXT], BOOL)],
    "isURL": [([TEXT], BOOL)],
    "bool": _conversions(BOOL, TEXT),
    "bytes": _conversions("bytes", TEXT),
    "int": _conversions(INT, "uint", "double", TEXT, DURATION, TIMESTAMP),
    "uint": _conversions("uint", INT, "double", TEXT),
    "double": _conversions("double", INT, "uint", TEXT),
    "duration": _conversions(DURATION, INT, TEXT),
    "timestamp": _conversions(TIMESTAMP, INT, TEXT),
}
_ONE_TEXT: Final = [([TEXT, TEXT], BOOL)]
_COMPARABLE: Final = ([QUANTITY, QUANTITY], [SEMVER, SEMVER])
_ORDERS: Final = [(types, BOOL) for types in _COMPARABLE]
_SUMS: Final = [([QUANTITY, QUANTITY], QUANTITY), ([QUANTITY, INT], QUANTITY)]
_NARROWER: Final = [([RESOURCE_CHECK, TEXT], RESOURCE_CHECK)]
METHODS: Final[Mapping[str, Overloads]] = {
    "contains": _ONE_TEXT,
    "startsWith": _ONE_TEXT,
    "endsWith": _ONE_TEXT,
    "matches": _ONE_TEXT,
    "find": [([TEXT, TEXT], TEXT)],
    "findAll": [([TEXT, TEXT], "list(string)"), ([TEXT, TEXT, INT], "list(string)")],
    "split": [([TEXT, TEXT], "list(string)"), ([TEXT, TEXT, INT], "list(string)")],
    "join": [(["list(string)"], TEXT), (["list(string)", TEXT], TEXT)],
    "format": [([TEXT, "list(dyn)"], TEXT)],
    "lowerAscii": [([TEXT], TEXT)],
    "upperAscii": [([TEXT], TEXT)],
    "trim": [([TEXT], TEXT)],
    "charAt": [([TEXT, INT], TEXT)],
    "replace": [([TEXT] * 3, TEXT), ([TEXT] * 3 + [INT], TEXT)],
    "substring": [([TEXT, INT], TEXT), ([TEXT, INT, INT], TEXT)],
    "compareTo": [(types, INT) for types in _COMPARABLE],
    "isGreaterThan": _ORDERS,
    "isLessThan": _ORDERS,
    "add": _SUMS,
    "sub": _SUMS,
    "isInteger": [([QUANTITY], BOOL)],
    "asInteger": [([QUANTITY], INT)],
    "asApproximateFloat": [([QUANTITY], "double")],
    "major": [([SEMVER], INT)],
    "minor": [([SEMVER], INT)],
    "patch": [([SEMVER], INT)],
    "path": [([AUTHORIZER, TEXT], PATH_CHECK)],
    "group": [([AUTHORIZER, TEXT], GROUP_CHECK)],
    "serviceAccount": [([AUTHORIZER, TEXT, TEXT], AUTHORIZER)],
    "resource": [([GROUP_CHECK, TEXT], RESOURCE_CHECK)],
    **dict.fromkeys(("subresource", "namespace", "name", "fieldSelector", "labelSelector"), _NARROWER),
    "check": [([PATH_CHECK, TEXT], DECISION), ([RESOURCE_CHECK, TEXT], DECISION)],
    "allowed": [([DECISION], BOOL)],
    "errored": [([DECISION], BOOL)],
    "reason": [([DECISION], TEXT)],
    "error": [([DECISION], TEXT)],
}


def is_message(of: str) -> bool:
    """Whether values of a type have fields in cel-go, so that null is one of them."""
    return "." in of.partition("(")[0] or of in (DURATION, TIMESTAMP)


def parameters(of: str) -> list[str]:
    """Return the element type of a list, or the key and value types of a map; nothing for other types."""
    if of.startswith("list("):
        return [of[5:-1]]
    if not of.startswith("map("):
        return []
    depth, inner = 0, of[4:-1]
    for at, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            return [inner[:at], inner[at + 2 :]]
    raise ValueError(of)


def unify(a: str, b: str) -> str | None:
    """Return the more general one of two types; None if no value has both."""
    if a == b or a in UNKNOWN:
        return a
    if b in UNKNOWN:
        return b
    if NULL in (a, b):
        other = b if a == NULL else a
        return other if is_message(other) else None
    ours, theirs = parameters(a), parameters(b)
    if not ours or len(ours) != len(theirs):
        return None
    both = [unify(x, y) for x, y in zip(ours, theirs, strict=True)]
    if None in both:
        return None
    return f"{a.partition('(')[0]}({', '.join(filter(None, both))})"


def choose(overloads: Overloads, types: Sequence[str]) -> str | None:
    """Return the type of the result, `dyn` where several overloads apply; None if no overload does."""
    results = {
        result
        for expected, result in overloads
        if len(expected) == len(types)
        and all(unify(t, e) is not None for t, e in zip(types, expected, strict=True))
    }
    if not results:
        return None
    return results.pop() if len(results) == 1 else DYNAMIC
