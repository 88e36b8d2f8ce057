"""Errors in applied configurations, with structured-merge-diff's messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.sandbox.apiserver.fields.go_text import go_syntax, go_type, go_value
from mooring.sandbox.apiserver.fields.sets import path_text
from mooring.sandbox.apiserver.fields.shapes import (
    Atomic,
    AtomicList,
    Granular,
    Listed,
    ListMap,
    ScalarShape,
    Shape,
    Struct,
    Untyped,
)
from mooring.sandbox.apiserver.kinds.types import Scalar

_NUMBERS: Final = (Scalar.INTEGER, Scalar.LONG, Scalar.NUMBER)
_TEXTS: Final = (Scalar.STRING, Scalar.BYTES)
_FREE: Final = (Scalar.ANY, Scalar.INT_OR_STRING, Scalar.OBJECT, Scalar.RAW)
"""Scalars that are checked later, when the object is decoded as one of its kind."""


def problems(shape: Shape, value: Any, path: str = "") -> Iterator[str]:
    """Yield what is wrong with a value, path by path."""
    if isinstance(shape, Atomic):
        shape = shape.inner
    if value is None or isinstance(shape, Untyped):
        return
    if isinstance(shape, ScalarShape):
        problem = _scalar_problem(shape.scalar, value)
        if problem:
            yield f"{path}: {problem}"
    elif isinstance(shape, Granular):
        yield from _member_problems(shape, value, path)
    elif not isinstance(value, list):
        yield f"{path}: expected list, got &{{{go_value(value)}}}"
    elif isinstance(shape, Listed):
        yield from _item_problems(shape, value, path)
    elif isinstance(shape, AtomicList):
        for index, item in enumerate(value):
            yield from problems(shape.item, item, f"{path}[{index}]")


def _scalar_problem(scalar: Scalar, value: Any) -> str:
    if scalar in _FREE:
        return ""
    if scalar in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected numeric (int or float), got {go_type(value)}"
    elif scalar in _TEXTS:
        if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}"
    elif scalar is Scalar.BOOLEAN:
        if not isinstance(value, bool):
            return f"expected boolean, got &{{{go_value(value)}}}"
    elif isinstance(value, dict | list):
        return f"expected any scalar, got &{{{go_value(value)}}}"
    return ""


def _member_problems(shape: Granular, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{go_value(value)}}}"
        return
    for name, held in value.items():
        member = shape.member(name)
        if member is not None:
            yield from problems(member.shape, held, f"{path}.{name}")
        elif not (isinstance(shape, Struct) and name in shape.silent):
            yield f"{path}.{name}: field not declared in schema"


def _item_problems(shape: Listed, value: list[Any], path: str) -> Iterator[str]:
    seen = set()
    for index, item in enumerate(value):
        problem = _key_problem(shape, item)
        if problem:
            yield f"{path}: element {index}: {problem}"
            return
        element = shape.element(item)
        text = path_text((element,))
        if element in seen:
            yield f"{path}: duplicate entries for key {text}"
        seen.add(element)
        yield from problems(shape.item, item, path + text)


def _key_problem(shape: Listed, item: Any) -> str:
    """Return why an item of a list cannot be identified."""
    if not isinstance(shape, ListMap):
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        return "associative list without keys has an element that's an explicit null" if item is None else ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if not any(key in item or shape.defaults.get(key) is not None for key in shape.keys):
        keys = " ".join(f'"{key}"' for key in shape.keys)
        why = "(and doesn't have default values for any key fields)"
        return f"associative list with keys has an element that omits all key fields [{keys}] {why}"
    return ""
