"""Sets of fields, in the form in which managedFields holds them (FieldsV1): trees of path elements.

A path element is `f:name` for a member, `k:{"name":"a"}` for the item of a list with a key, `v:"a"` for the
item of a set and `i:0` for an index. A node without members is a field of the set; a node with members
belongs to it if `.` is one of them. Sets are used as they are stored, without translation. Nodes are shared
and never changed once they are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

Fields = dict[str, Any]
"""A set of fields, or one node of it. As a set, the empty one holds nothing; as a node, it is a field."""

SELF: Final = "."
LEAF: Final[Fields] = {}

_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""What Go escapes inside JSON texts; path elements are compared as texts."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def _json(value: object) -> str:
    return _encode(value).decode().translate(_HTML)


def key_element(*key: tuple[str, Any]) -> str:
    """Return the path element of a list's item, by the members of its key."""
    try:
        return _key_element(*key)
    except TypeError:  # a client sent an object or a list as part of the key
        return "k:" + _json(dict(key))


@lru_cache(maxsize=8192)
def _key_element(*key: tuple[str, Any]) -> str:
    return "k:" + _json(dict(key))


def value_element(value: Any) -> str:
    """Return the path element of an item of a set."""
    return "v:" + _json(value)


def in_order(fields: Fields) -> Fields:
    """Return a set in the order in which Kubernetes shows it, which clients compare as text."""
    return {element: in_order(fields[element]) if fields[element] else LEAF for element in sorted(fields)}


def is_member(node: Fields) -> bool:
    return not node or SELF in node


def _node(children: Fields, member: bool) -> Fields | None:
    """Return a node with these children; None if nothing is left of it."""
    if not member:
        return children or None
    return {SELF: LEAF, **children} if children else LEAF


def union(one: Fields, other: Fields) -> Fields:
    """Return the union of two sets."""
    if not one or not other:
        return one or other
    result = dict(one)
    for element, node in other.items():
        present = one.get(element)
        result[element] = node if present is None else _joined(present, node)
    return result


def _joined(one: Fields, other: Fields) -> Fields:
    """Merge one node of two sets; `.` is treated like any other element."""
    if one and other:
        return union(one, other)
    children = one or other
    return {SELF: LEAF, **children} if children else LEAF


def difference(one: Fields, other: Fields) -> Fields:
    """Return what is in `one` and not in `other`, path by path: removing a field leaves what is below it."""
    if not other:
        return one
    result = {}
    for element, node in one.items():
        taken = other.get(element)
        if taken is None:
            result[element] = node
        elif element != SELF:
            left = _node(difference(_children(node), taken), is_member(node) and not is_member(taken))
            if left is not None:
                result[element] = left
    return result


def without(one: Fields, other: Fields) -> Fields:
    """Return what is in `one` and neither in `other` nor below a field of `other`."""
    if not other:
        return one
    result = {}
    for element, node in one.items():
        taken = other.get(element)
        if taken is None:
            result[element] = node
        elif element != SELF and not is_member(taken):
            left = _node(without(_children(node), taken), is_member(node))
            if left is not None:
                result[element] = left
    return result


def intersection(one: Fields, other: Fields) -> Fields:
    """Return the intersection of two sets."""
    result = {}
    for element, node in one.items():
        node_of_other = other.get(element)
        if node_of_other is not None and element != SELF:
            both = _node(
                intersection(_children(node), _children(node_of_other)),
                is_member(node) and is_member(node_of_other),
            )
            if both is not None:
                result[element] = both
    return result


def only(one: Fields, pattern: Fields) -> Fields:
    """Return what a pattern admits of `one`: `*` matches any element, a leaf everything below it."""
    if not pattern:
        return one
    result = {}
    for element, node in one.items():
        below = pattern.get(element, pattern.get("*"))
        if element == SELF:
            result[element] = node
        elif below is not None:
            admitted = only(node, below)
            if admitted or not node:
                result[element] = admitted
    return result


def _children(node: Fields) -> Fields:
    return {element: child for element, child in node.items() if element != SELF} if SELF in node else node


def has(fields: Fields, path: tuple[str, ...]) -> bool:
    """Whether a path is in the set."""
    node: Fields | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return node is not None and is_member(node)


def paths(fields: Fields, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield all fields of the set, those nearer to the root first, as Kubernetes lists them."""
    elements = sorted(element for element in fields if element != SELF)
    yield from ((*before, element) for element in elements if is_member(fields[element]))
    for element in elements:
        yield from paths(fields[element], (*before, element))


def of_path(path: tuple[str, ...]) -> Fields:
    """Return the set of one field."""
    node: Fields = LEAF
    for element in reversed(path):
        node = {element: node}
    return node


def path_text(path: tuple[str, ...]) -> str:
    """Format a path as messages show it: `.spec.containers[name="a"].image`."""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    form, _, rest = element.partition(":")
    if form == "f":
        return "." + rest
    if form == "k":
        parts = msgspec.json.decode(rest.encode())
        return "[" + ",".join(f"{name}={_encode(value).decode()}" for name, value in parts.items()) + "]"
    return f"[={rest}]" if form == "v" else f"[{rest}]"
