"""JSONPath as Kubernetes uses it in printer columns: one path into an object, such as
`.status.conditions[?(@.type=="Ready")].status`.

Supported are members, quoted members, indices and slices, unions, wildcards, recursive descent and filters
with one comparison. Templates around a path (`{range}` and text) are not: columns have none.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

_QUOTED = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_STEP = re.compile(
    rf"""(?P<deep>\.\.)
    | \.(?P<member>(?:\\.|[^\s.,\[\]$@{{}}\\])+)
    | \[\?\((?P<filter>(?:{_QUOTED}|[^)"'])*)\)\]
    | \[(?P<index>(?:{_QUOTED}|[^\]"'])*)\]
    | (?P<bare>[A-Za-z0-9_](?:\\.|[^\s.,\[\]$@{{}}\\])*)""",
    re.VERBOSE,
)
_COMPARISON = re.compile(r"(?P<left>[^!<>=]+)(?P<operator>[!<>=]+)(?P<right>.+)", re.DOTALL)
_SLICE = re.compile(r"(-?[0-9]{1,18}|)(:(?:-?[0-9]{1,18}|))?(:[0-9]{0,18})?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]*)?")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

MOST_VALUES = 20_000
"""Values that a path may visit in one object: `..b..b..b` multiplies them."""

Step = Callable[[list[Any], "_Budget"], Iterable[Any]]


class JSONPathError(ValueError):
    """An invalid path, or one that does not apply to a value."""


class JSONPath:
    """A parsed path. Raises JSONPathError if it is invalid."""

    def __init__(self, text: str) -> None:
        self._steps = _read(text)

    def find(self, tree: Any) -> list[Any]:
        """Return all values that the path leads to. Raises JSONPathError."""
        return _walk(self._steps, tree, _Budget())


class _Budget:
    """What is left of the values that may be visited."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def spend(self, values: Iterable[Any]) -> list[Any]:
        """Return the values as a list. Raises JSONPathError once there are too many."""
        visited = list(islice(values, self._left + 1))
        self._left -= len(visited)
        if self._left < 0:
            raise JSONPathError(f"JSONPath: visits more than {MOST_VALUES} values of the object")
        return visited


# ---- reading --------------------------------------------------------------------------------------


def _read(text: str) -> list[Step]:
    text = text.strip()
    at = 1 if text[:1] in ("$", "@") else 0
    steps: list[Step] = []
    deep = False
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or (match["bare"] is not None and not deep) or (match["deep"] and deep):
            raise JSONPathError(f'JSONPath "{text}": cannot be read from "{text[at : at + 20]}" on')
        at = match.end()
        deep = match["deep"] is not None
        steps.append(_step(match))
    return steps


def _step(match: re.Match[str]) -> Step:
    if match["deep"]:
        return lambda values, budget: (below for value in values for below in _descend(value))
    if match["filter"] is not None:
        return _filter(match["filter"])
    if match["index"] is not None:
        return _bracket(match["index"])
    name = match["member"] or match["bare"]
    return _wildcard if name == "*" else _member(re.sub(r"\\(.)", r"\1", name))


def _bracket(text: str) -> Step:
    text = text.strip()
    if "," in text:
        parts = [_bracket(part) for part in text.split(",")]
        return lambda values, budget: (value for part in parts for value in part(values, budget))
    if re.fullmatch("'[^']*'", text):  # the same as after a dot: dots in a name are escaped here, too
        steps = _read(f".{text[1:-1]}")
        return lambda values, budget: (each for value in values for each in _walk(steps, value, budget))
    slice = _SLICE.fullmatch("::" if text == "*" else text)
    if slice is None or not text:
        raise JSONPathError(f'JSONPath "[{text}]": expected an index, a slice, "*" or a quoted member')
    start, stop, step = (part.lstrip(":") if part is not None else None for part in slice.groups())
    if stop is None:
        return _index(int(start or 0))
    return _slice(_integer(start), _integer(stop), _integer(step))


def _integer(text: str | None) -> int | None:
    return int(text) if text else None


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _filter(text: str) -> Step:
    comparison = _COMPARISON.fullmatch(text)
    if comparison is None:
        exists = _read(text)
        return lambda values, budget: (item for item in _items(values) if _walk(exists, item, budget))
    compare = _COMPARE.get(comparison["operator"])
    if compare is None:
        raise JSONPathError(f'JSONPath "[?({text})]": unknown operator "{comparison["operator"]}"')
    left, right = _operand(comparison["left"]), _operand(comparison["right"])
    return lambda values, budget: (
        item for item in _items(values) if _passes(compare, left(item, budget), right(item, budget))
    )


def _operand(text: str) -> Callable[[Any, _Budget], list[Any]]:
    """Parse one side of a comparison: a literal, or a path from the item."""
    text = text.strip()
    if re.fullmatch(_QUOTED, text):
        literal: Any = _unquote(text)
    elif _NUMBER.fullmatch(text):
        literal = float(text) if "." in text else int(text)
    elif text in ("true", "false"):
        literal = text == "true"
    else:
        steps = _read(text)
        return lambda item, budget: _walk(steps, item, budget)
    return lambda item, budget: [literal]


# ---- walking --------------------------------------------------------------------------------------


def _walk(steps: list[Step], value: Any, budget: _Budget) -> list[Any]:
    values = [value]
    for step in steps:
        values = budget.spend(step(values, budget))
    return values


def _member(name: str) -> Step:
    return lambda values, _: (value[name] for value in values if isinstance(value, dict) and name in value)


def _wildcard(values: list[Any], budget: _Budget) -> Iterator[Any]:
    return (child for value in values for child in _children(value))


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _descend(value: Any) -> Iterator[Any]:
    children = _children(value)
    if children:
        yield value
        for child in children:
            yield from _descend(child)


def _items(values: list[Any]) -> Iterator[Any]:
    """Yield the items of lists. Raises JSONPathError for other values."""
    for value in values:
        if not isinstance(value, list):
            raise JSONPathError(f"{json.dumps(value)[:100]} is not a list")
        yield from value


def _index(position: int) -> Step:
    def index(values: list[Any], budget: _Budget) -> Iterator[Any]:
        for value in values:
            if not isinstance(value, list) or not -len(value) <= position < len(value):
                raise JSONPathError(f"there is no item {position} in {json.dumps(value)[:100]}")
            yield value[position]

    return index


def _slice(start: int | None, stop: int | None, step: int | None) -> Step:
    if step == 0:
        raise JSONPathError("JSONPath: the step of a slice must be greater than 0")

    def slice(values: list[Any], budget: _Budget) -> Iterator[Any]:
        for value in values:
            if not isinstance(value, list) or max(start or 0, stop or 0) > len(value):
                raise JSONPathError(f"there are no items {start}:{stop} in {json.dumps(value)[:100]}")
            yield from value[start:stop:step]

    return slice


def _passes(compare: Callable[[Any, Any], bool], left: list[Any], right: list[Any]) -> bool:
    if len(left) > 1 or len(right) > 1:
        raise JSONPathError("can only compare one element at a time")
    if not left or not right:
        return False
    one, other = left[0], right[0]
    if isinstance(one, bool) != isinstance(other, bool) or isinstance(one, str) != isinstance(other, str):
        raise JSONPathError(f"{json.dumps(one)} and {json.dumps(other)} cannot be compared")
    try:
        return compare(one, other)
    except TypeError as error:
        raise JSONPathError(str(error)) from None
