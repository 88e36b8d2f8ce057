"""What a call of a function costs by its arguments and its result: cel-go's rules and Kubernetes' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from mooring.cel.call_estimates import COMPARED, COPIES, ELEMENTS, NOMINAL, PARSERS
from mooring.cel.cel_errors import CelError
from mooring.cel.estimate import LIST_COST, PATTERN, TRAVERSAL
from mooring.cel.networks import Address, Format, Network, Url
from mooring.cel.quantities import Quantity
from mooring.cel.semver import Semver
from mooring.cel.values import Optional

Values = Sequence[Any]
Cost = Callable[[str, Values, Any], int | None]

_NOT_A_LIST: Final = (
    "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add"
)
_FIXED_SIZE: Final = (Quantity, Semver, Address, Network, Url, Format)
_PATTERN_SIZES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("dns1123Label", "dns1123LabelPrefix", "dns1035Label", "dns1035LabelPrefix"), 30),
    **dict.fromkeys(("dns1123Subdomain", "dns1123SubdomainPrefix", "qualifiedName"), 60),
    "labelValue": 40,
    "uri": 1103,
    "uuid": 70,
    "byte": 84,
    "date": 71,
    "datetime": 71,
}


def call_cost(function: str, overload: str, args: Values, result: Any) -> int:
    """Return the cost of one call; `overload` is empty if the types of the arguments were not certain."""
    for key, rules in ((overload, _BY_LIBRARY), (function, _BY_FUNCTION), (overload, _BY_OVERLOAD)):
        rule = rules.get(key)
        if rule is not None:
            cost = rule(overload, args, result)
            if cost is not None:
                return cost
    return 1


def size(value: Any) -> int:
    """Return the number of characters, bytes or entries; 1 for values that have no size."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Network):
        return -(-int(value.network.prefixlen) // 8)
    return int(value.address.max_prefixlen) // 8 if isinstance(value, Address) else 1


def _size_with_optional(value: Any) -> int:
    return _size_with_optional(value.value) if isinstance(value, Optional) and value.present else size(value)


def _scaled(value: float, factor: float) -> int:
    return ceil(value * factor)


# ---- extensions of lists and sets


def _allocating(factor: float, count: int) -> int:
    return int(count * factor) + 1 + LIST_COST


def _result_list(overload: str, args: Values, result: Any) -> int:
    return _allocating(1, size(result))


def _flatten(overload: str, args: Values, result: Any) -> int:
    return _allocating(float(args[1]) if len(args) == 2 else 1, size(args[0]))


def _compared_list(position: int) -> Cost:
    def cost(overload: str, args: Values, result: Any) -> int:
        items = args[position]
        if not isinstance(items, list):  # cel-go does not expect a failure here
            raise CelError(_NOT_A_LIST)
        is_text = bool(items) and isinstance(items[0], str | bytes)
        return _allocating(2 + TRAVERSAL if is_text else 2, len(items) ** 2)

    return cost


def _sets(factor: int) -> Cost:
    return lambda overload, args, result: 1 + size(args[0]) * size(args[1]) * factor


_SORTED_TYPES: Final = (
    *("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp"),
    *("string", "bytes"),
)
_BY_LIBRARY: Final[Mapping[str, Cost]] = {
    **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _result_list),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
    "list_distinct": _compared_list(0),
    **{f"list_{of}_sort": _compared_list(0) for of in _SORTED_TYPES},
    **{f"list_{of}_sortByAssociatedKeys": _compared_list(1) for of in _SORTED_TYPES},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


# ---- Kubernetes' functions


def _traversal(factor: float = 1) -> Cost:
    return lambda overload, args, result: _scaled(size(args[0]), factor * TRAVERSAL)


def _elements(overload: str, args: Values, result: Any) -> int:
    return _tree(args[0])


def _tree(value: Any) -> int:
    """The cost of going through a value with all that it contains."""
    if isinstance(value, str):
        return int(len(value.encode()) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(map(_tree, value))
    if isinstance(value, dict):
        return sum(_tree(key) + _tree(content) for key, content in value.items())
    return 1


def _pattern(text: Any, length: int) -> int:
    return _scaled(1.0 + size(text), TRAVERSAL) * _scaled(length, PATTERN)


def _find(overload: str, args: Values, result: Any) -> int:
    return _pattern(args[0], size(args[1]))


def _ip(overload: str, args: Values, result: Any) -> int:
    return 1 if overload == "cidr_ip" else _scaled(size(args[0]), TRAVERSAL)


def _contains_address(overload: str, args: Values, result: Any) -> int:
    cost = _scaled(2 * size(args[0]), TRAVERSAL)
    return cost + (_scaled(size(args[1]), TRAVERSAL) if overload == "cidr_contains_ip_string" else 0)


def _contains_network(overload: str, args: Values, result: Any) -> int:
    cost = _scaled(2 * size(args[0]), TRAVERSAL) + _scaled(size(args[0]), TRAVERSAL) + 1
    return cost + (_scaled(size(args[1]), TRAVERSAL) if overload == "cidr_contains_cidr_string" else 0)


def _validate(overload: str, args: Values, result: Any) -> int | None:
    form = args[0]
    return _pattern(args[1], _PATTERN_SIZES[form.name]) if isinstance(form, Format) else None


def _equals(overload: str, args: Values, result: Any) -> int | None:
    return 1 if isinstance(args[0], _FIXED_SIZE) else None


_BY_FUNCTION: Final[Mapping[str, Cost]] = {
    **dict.fromkeys(NOMINAL, lambda overload, args, result: 1),
    **dict.fromkeys(ELEMENTS, _elements),
    **dict.fromkeys((*PARSERS, *COPIES, "url"), _traversal()),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _traversal(2)),
    "check": lambda overload, args, result: 350_000,
    "join": lambda overload, args, result: _scaled(size(result), 2 * TRAVERSAL),
    "find": _find,
    "findAll": _find,
    "ip": _ip,
    "containsIP": _contains_address,
    "containsCIDR": _contains_network,
    "validate": _validate,
    "_==_": _equals,
}


# ---- cel-go's own functions


def _shorter(overload: str, args: Values, result: Any) -> int:
    return _scaled(min(map(_size_with_optional, args)), TRAVERSAL)


def _both(overload: str, args: Values, result: Any) -> int:
    return _scaled(sum(map(_size_with_optional, args)), TRAVERSAL)


def _contains(overload: str, args: Values, result: Any) -> int:
    text, part = map(_size_with_optional, args)
    return _scaled(text, TRAVERSAL) * _scaled(part, TRAVERSAL)


_BY_OVERLOAD: Final[Mapping[str, Cost]] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _traversal()
    ),
    **dict.fromkeys(("strings_quote", "string_format"), _traversal()),
    "in_list": lambda overload, args, result: _size_with_optional(args[1]),
    **dict.fromkeys(COMPARED, _shorter),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "matches_string": lambda overload, args, result: _pattern(args[0], size(args[1])),
    "contains_string": _contains,
}
