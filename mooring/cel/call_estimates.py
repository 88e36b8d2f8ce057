"""What calls of functions can cost at most, and how large their results can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Final

from mooring.cel.estimate import (
    LIST_COST,
    PATTERN,
    TRAVERSAL,
    UNLIMITED,
    Estimate,
    Operand,
    Range,
    SizeOf,
    exactly,
)
from mooring.cel.syntax import Literal
from mooring.cel.types import BYTES, STRING

_ONE: Final = exactly(1)
_ADDRESS: Final = Range(4, 16)  # bytes of an IP address
_NAME_PATTERN: Final = 128  # characters of the longest pattern of a format
_LONGEST_FORMAT: Final = 64

Sizer = Callable[[Operand], Range]
Estimator = Callable[[Sizer, str, Operand | None, Sequence[Operand]], Estimate | None]


def estimate(
    function: str, overload: str, target: Operand | None, args: Sequence[Operand], size_of: SizeOf
) -> Estimate:
    """Estimate a call without the cost of its arguments."""

    def size(operand: Operand) -> Range:
        if operand.size is not None:
            return operand.size
        most = size_of(operand.path) if operand.path else None
        return Range(0, UNLIMITED if most is None else most)

    for key, estimators in ((overload, _BY_LIBRARY), (function, _BY_FUNCTION), (overload, _BY_OVERLOAD)):
        estimator = estimators.get(key)
        if estimator is not None:
            found = estimator(size, overload, target, args)
            if found is not None:
                return found
    return Estimate(_ONE)


def _known(operand: Operand) -> Range:
    return operand.size or Range(0, UNLIMITED)


# ---- extensions of lists and sets


def _allocating(factor: float, size: Range) -> Estimate:
    return Estimate(size.scaled(factor).plus(exactly(1 + LIST_COST)), size)


def _integer(operand: Operand, default: int) -> int:
    value = operand.node.value if isinstance(operand.node, Literal) else None
    return max(value, 0) if type(value) is int else default


def _slice(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    assert target is not None
    start, end = _integer(args[0], 0), _integer(args[1], size(target).most)
    return _allocating(1, exactly((end - start) % 2**64))


def _range(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    return _allocating(1, exactly(_integer(args[0], UNLIMITED)))


def _reverse(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    assert target is not None
    return _allocating(1, size(target))


def _flatten(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    assert target is not None
    return _allocating(float(_integer(args[0], UNLIMITED) if args else 1), size(target))


def _distinct(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    assert target is not None
    count = size(target)
    return _allocating(2, count.times(count))


def _sort(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    compared = args[0] if args else target
    assert compared is not None
    count = size(compared)
    is_text = overload.startswith(("list_string_", "list_bytes_"))
    return _allocating(2 + TRAVERSAL if is_text else 2, count.times(count))


def _sets(factor: float) -> Estimator:
    def estimator(
        size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]
    ) -> Estimate | None:
        return Estimate(size(args[0]).times(size(args[1])).scaled(factor).plus(_ONE))

    return estimator


_SORTED_TYPES: Final = (
    "int",
    "uint",
    "double",
    "bool",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "string",
    "bytes",
)
_BY_LIBRARY: Final[Mapping[str, Estimator]] = {
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _distinct,
    **{f"list_{of}_{how}": _sort for of in _SORTED_TYPES for how in ("sort", "sortByAssociatedKeys")},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


# ---- Kubernetes' functions


def _nominal(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    return Estimate(_ONE)


def _check(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    return Estimate(exactly(350_000))


def _elements(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    """Going through a list once, or through a string."""
    if target is None:
        return None
    if not target.type.parameters:
        return Estimate(size(target).scaled(TRAVERSAL))
    each = _ONE
    element = target.type.parameters[0]
    if element in (STRING, BYTES):
        path = (*target.path, "@items") if target.path else ()
        each = each.plus(size(Operand(target.node, element, path, None)).scaled(TRAVERSAL))
    return Estimate(size(target).times(each))


def _traversal(factor: float = 1, *, sized: bool = False) -> Estimator:
    """Going through the first argument."""

    def estimator(
        size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]
    ) -> Estimate | None:
        if not args:
            return None
        of = size(args[0])
        return Estimate(of.scaled(factor * TRAVERSAL), of if sized else None)

    return estimator


def _of_target(
    size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]
) -> Estimate | None:
    if target is None:
        return None
    of = size(target)
    return Estimate(of.scaled(TRAVERSAL), of)


def _replace(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    text, old, new = size(target), size(args[0]), size(args[1])
    if old.least == 0:  # an empty text is between all characters
        most, kept = min(text.most + 1, UNLIMITED), text.most
    elif new.most <= old.least:
        most, kept = 0, text.most
    else:
        most, kept = ceil(float(text.most) / float(old.least)), 0
    if old.most == 0:
        least, kept_least = min(text.least + 1, UNLIMITED), text.least
    elif old.most <= new.least:
        least, kept_least = 0, text.least
    else:
        least, kept_least = ceil(float(text.least) / float(old.most)), 0
    result = Range(least, most).times(new).plus(Range(kept_least, kept))
    return Estimate(text.scaled(2 * TRAVERSAL), result)


def _split(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    text = size(target)
    most = text.most
    if len(args) > 1 and isinstance(args[1].node, Literal) and type(args[1].node.value) is int:
        most = args[1].node.value % 2**64
    return Estimate(text.scaled(2 * TRAVERSAL), Range(0, most))


def _join(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    count, total = size(target), exactly(0)
    if target.type.parameters:
        path = (*target.path, "@items") if target.path else ()
        total = count.times(size(Operand(target.node, target.type.parameters[0], path, None)))
    if args:
        separators = Range(max(count.least - 1, 0), max(count.most - 1, 0))
        total = total.plus(size(args[0]).times(separators))
    return Estimate(total.scaled(TRAVERSAL), total)


def _find(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    text = size(target)
    cost = text.plus(_ONE).scaled(TRAVERSAL).times(size(args[0]).scaled(PATTERN))
    return Estimate(cost, Range(0, text.most))


def _ip(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if overload == "cidr_ip":
        return Estimate(_ONE)
    return Estimate(size(args[0]).scaled(TRAVERSAL)) if args else None


def _contains_address(
    size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]
) -> Estimate | None:
    cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL)
    if overload.startswith("cidr_contains_cidr"):
        cost = cost.plus(_ADDRESS.scaled(TRAVERSAL)).plus(_ONE)
    if overload.endswith("_string"):
        cost = cost.plus(size(args[0]).scaled(TRAVERSAL))
    return Estimate(cost)


def _validate(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    return Estimate(size(args[0]).scaled(TRAVERSAL).scaled(_NAME_PATTERN * PATTERN)) if args else None


def _equals(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    left, right = args
    if left.type != right.type:
        return None
    if left.type.name in _FIXED_SIZE:
        return Estimate(_ONE)
    if left.type.name == "kubernetes.NamedFormat":
        return Estimate(Range(1, _LONGEST_FORMAT).scaled(TRAVERSAL))
    if left.type.name == "kubernetes.URL":
        return Estimate(Range(1, right.size.most if right.size else 1).scaled(TRAVERSAL))
    return None


_FIXED_SIZE: Final = frozenset(
    {
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    }
)
NOMINAL: Final = (
    *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name"),
    *("allowed", "reason", "error", "errored", "format.named"),
    *("masked", "prefixLength", "family", "isUnspecified", "isLoopback"),
    *("isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast"),
    *("sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo"),
    *("add", "sub", "major", "minor", "patch"),
    *("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
)
"""Functions that cost 1."""
ELEMENTS: Final = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf")
PARSERS: Final = ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver")
COPIES: Final = ("lowerAscii", "upperAscii", "substring", "trim")

_BY_FUNCTION: Final[Mapping[str, Estimator]] = {
    **dict.fromkeys(NOMINAL, _nominal),
    **dict.fromkeys(ELEMENTS, _elements),
    **dict.fromkeys(PARSERS, _traversal()),
    **dict.fromkeys(COPIES, _of_target),
    "check": _check,
    "url": _traversal(sized=True),
    "ip": _ip,
    "ip.isCanonical": _traversal(2),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "containsIP": _contains_address,
    "containsCIDR": _contains_address,
    "validate": _validate,
    "_==_": _equals,
}


# ---- cel-go's own functions


def _format(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    return Estimate(_known(target).scaled(TRAVERSAL)) if target is not None else None


def _converted(result: Callable[[Range], Range]) -> Estimator:
    def estimator(
        size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]
    ) -> Estimate | None:
        of = _known(args[0])
        return Estimate(of.scaled(TRAVERSAL), result(of))

    return estimator


def _affix(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    return Estimate(_known(args[0]).scaled(TRAVERSAL))


def _in_list(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    return Estimate(_known(args[1]).scaled(1))


def _matches(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    return Estimate(_known(target).plus(_ONE).scaled(TRAVERSAL).times(_known(args[0]).scaled(PATTERN)))


def _contains(size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    return Estimate(_known(target).scaled(TRAVERSAL).times(_known(args[0]).scaled(TRAVERSAL)))


def _concatenation(
    size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]
) -> Estimate | None:
    total = _known(args[0]).plus(_known(args[1]))
    return Estimate(_ONE if overload == "add_list" else total.scaled(TRAVERSAL), total)


def _comparison(
    size: Sizer, overload: str, target: Operand | None, args: Sequence[Operand]
) -> Estimate | None:
    shorter = min(_known(args[0]).most, _known(args[1]).most)
    return Estimate(Range(1 if shorter else 0, shorter).scaled(TRAVERSAL))


COMPARED: Final = (
    *(
        f"{how}_{of}"
        for how in ("less", "greater", "less_equals", "greater_equals")
        for of in ("string", "bytes")
    ),
    "equals",
    "not_equals",
)
"""Overloads whose cost is that of the shorter one of two operands."""

_BY_OVERLOAD: Final[Mapping[str, Estimator]] = {
    "string_format": _format,
    "string_to_bytes": _converted(lambda of: Range(of.least, of.most * 4 % 2**64)),
    "bytes_to_string": _converted(lambda of: Range(of.least // 4, of.most)),
    "strings_quote": _converted(lambda of: Range(of.least + 2, (of.most * 2 + 2) % 2**64)),
    "starts_with_string": _affix,
    "ends_with_string": _affix,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _concatenation),
    **dict.fromkeys(COMPARED, _comparison),
}
