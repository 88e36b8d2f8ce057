"""Merging an applied configuration into an object, and removing fields from one."""

from __future__ import annotations

from typing import Any

from mooring.sandbox.apiserver.fields.sets import LEAF, SELF, Fields, is_member
from mooring.sandbox.apiserver.fields.shapes import Granular, Listed, ListMap, Shape, Struct, Untyped


def merge(shape: Shape, live: Any, config: Any) -> Any:
    """Merge the configuration into the live value. Neither is changed."""
    if isinstance(shape, Granular) and _is_dict(live) and _is_dict(config):
        return _merge_members(shape, live, config)
    if isinstance(shape, Listed) and isinstance(live, list) and isinstance(config, list) and live and config:
        return _merge_items(shape, live, config)
    keeps = isinstance(shape, Granular | Listed) and not isinstance(shape, Untyped)
    return live if keeps and live and not config else config


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict) and bool(value)


def _merge_members(shape: Granular, live: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    merged = dict(live)
    for name, value in config.items():
        member = shape.member(name)
        if member is None or name not in live:
            merged[name] = value
        else:
            merged[name] = merge(member.shape, live[name], value)
    return merged


def _merge_items(shape: Listed, live: list[Any], config: list[Any]) -> list[Any]:
    """Merge lists: items of the configuration in its order, others at their place among them."""
    present: dict[str, Any] = {}
    for item in live:
        element = shape.element(item)
        present[element] = None if element in present else item  # duplicate in the object: not merged
    configured = {shape.element(item): item for item in config}
    ahead = iter([element for element in configured if element in present])
    upcoming, waiting = next(ahead, None), list(configured)
    waiting.reverse()
    merged: list[Any] = []

    def take() -> None:
        """Take the next item of the configuration."""
        nonlocal upcoming
        element = waiting.pop()
        item = configured[element]
        current = present.get(element)
        merged.append(item if current is None else merge(shape.item, current, item))
        if element == upcoming:
            upcoming = next(ahead, None)

    for item in live:
        element = shape.element(item)
        if element not in configured:
            merged.append(item)
            continue
        while waiting and upcoming == element:
            take()
    while waiting:
        take()
    return merged


def remove(shape: Shape, value: Any, fields: Fields) -> Any:
    """Return the value without the fields of a set; None if nothing is left."""
    if isinstance(shape, Granular) and isinstance(value, dict):
        return _remove_members(shape, value, fields) or None
    if isinstance(shape, Listed) and isinstance(value, list):
        return _remove_items(shape, value, fields) or None
    return value if not isinstance(value, dict | list) else None


def _remove_members(shape: Granular, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    kept = {}
    for name, held in value.items():
        node = fields.get(f"f:{name}")
        if node is None:
            kept[name] = held
        elif not is_member(node):
            member = shape.member(name)
            kept[name] = held if member is None else remove(member.shape, held, node)
    return kept


def _remove_items(shape: Listed, value: list[Any], fields: Fields) -> list[Any]:
    kept = []
    for item in value:
        node = fields.get(shape.element(item))
        if node is None:
            kept.append(item)
        elif not is_member(node):
            kept.append(remove(shape.item, item, node))
    return kept


def with_named_members(shape: Shape | None, fields: Fields) -> Fields:
    """Add the members of objects that the set only passes through: with `a.b` it holds `a`.

    Maps and items of lists are not added: they are fields of their own.
    """
    result: Fields = {}
    for element, node in fields.items():
        if element == SELF or not node:
            result[element] = node
            continue
        below = with_named_members(_below(shape, element), node)
        named = isinstance(shape, Struct) and element[2:] in shape.members
        result[element] = {SELF: LEAF, **below} if named else below
    return result


def _below(shape: Shape | None, element: str) -> Shape | None:
    if element.startswith("f:") and isinstance(shape, Granular):
        member = shape.member(element[2:])
        return None if member is None else member.shape
    return shape.item if isinstance(shape, ListMap) else None
