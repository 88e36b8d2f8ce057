"""Functions on lists: Kubernetes' own, the lists extension (version 3) and the sets extension."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key, reduce
from itertools import pairwise
from typing import Any

from mooring.cel.cel_errors import CelError, CostLimitExceededError, no_such_overload
from mooring.cel.overloads import overloads
from mooring.cel.syntax import UInt
from mooring.cel.values import ORDERED, Duration, compare, contains, equal_or_false

_MOST_ITEMS = 1_000_000  # each costs 1


def _is_sorted(items: list[Any]) -> bool:
    return all(compare(a, b) <= 0 for a, b in pairwise(items))


def _sum(items: list[Any]) -> Any:
    kinds = {type(item) for item in items}
    if not items:
        return 0
    if len(kinds) > 1 or not kinds <= {int, UInt, float, Duration}:
        raise no_such_overload()
    if kinds == {Duration}:
        return Duration(sum(item.nanoseconds for item in items))
    total = sum(items)
    if kinds == {int} and not -(2**63) <= total < 2**63:
        raise CelError("integer overflow")
    return UInt(total) if kinds == {UInt} else total


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def evaluate(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        if any(type(item) not in ORDERED for item in items):
            raise no_such_overload()
        return reduce(lambda a, b: b if compare(a, b) * sign < 0 else a, items)

    return evaluate


def _index_of(items: list[Any], item: Any) -> int:
    return next((i for i, each in enumerate(items) if equal_or_false(each, item)), -1)


def _last_index_of(items: list[Any], item: Any) -> int:
    return next((i for i in range(len(items) - 1, -1, -1) if equal_or_false(items[i], item)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        flat += _flatten(item, depth - 1) if isinstance(item, list) and depth > 0 else [item]
    return flat


def _sort(items: list[Any]) -> list[Any]:
    if any(type(item) is not type(items[0]) for item in items):
        raise CelError("list elements must have the same type")
    return sorted(items, key=cmp_to_key(compare))


def _distinct(items: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for item in items:
        if not contains(distinct, item):
            distinct.append(item)
    return distinct


def _range(count: int) -> list[int]:
    if count > _MOST_ITEMS:
        raise CostLimitExceededError
    return list(range(count))


def _contains_all(items: list[Any], others: list[Any]) -> bool:
    return all(contains(items, other) for other in others)


_LISTS = (list, list)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lists.range": overloads(((int,), _range)),
    "sets.contains": overloads((_LISTS, _contains_all)),
    "sets.equivalent": overloads((_LISTS, lambda a, b: _contains_all(a, b) and _contains_all(b, a))),
    "sets.intersects": overloads((_LISTS, lambda a, b: any(contains(a, item) for item in b))),
}

METHODS: dict[str, Callable[..., Any]] = {
    "isSorted": overloads(((list,), _is_sorted)),
    "sum": overloads(((list,), _sum)),
    "max": overloads(((list,), _extreme("max", 1))),
    "min": overloads(((list,), _extreme("min", -1))),
    "indexOf": overloads(((list, object), _index_of)),
    "lastIndexOf": overloads(((list, object), _last_index_of)),
    "slice": overloads(((list, int, int), _slice)),
    "flatten": overloads(((list,), _flatten), ((list, int), _flatten)),
    "sort": overloads(((list,), _sort)),
    "distinct": overloads(((list,), _distinct)),
    "reverse": overloads(((list,), lambda items: items[::-1])),
}
