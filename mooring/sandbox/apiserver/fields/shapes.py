"""The shapes of values: what of them is owned field by field, and what as a whole.

A shape says which fields a new value has (`added`), which of them an applied configuration names (`named`),
and how two values differ (`compare`). Checking, merging and removing are in modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from mooring.sandbox.apiserver.fields.sets import LEAF, SELF, Fields, key_element, value_element
from mooring.sandbox.apiserver.kinds.types import Scalar


class Changes(NamedTuple):
    """How one value differs from another; no field is in two of these sets."""

    removed: Fields
    modified: Fields
    added: Fields


class Shape:
    """Base class: a leaf, that is a value with one owner."""

    leaf = True

    def added(self, value: Any) -> Fields:
        """Return the node of a new value: all its fields, and itself."""
        return LEAF

    def named(self, value: Any) -> Fields:
        """Return the fields below a value of an applied configuration."""
        return LEAF

    def compare(self, element: str, old: Any, new: Any, changes: Changes) -> None:
        """Record how two unequal values differ; `element` is their path element."""
        changes.modified[element] = LEAF


class ScalarShape(Shape):
    def __init__(self, scalar: Scalar) -> None:
        self.scalar = scalar


class AtomicList(Shape):
    """A list that is replaced as a whole."""

    def __init__(self, item: Shape) -> None:
        self.item = item


class Atomic(Shape):
    """An object or a map with one owner, whose content is nevertheless checked."""

    def __init__(self, inner: Granular) -> None:
        self.inner = inner


class Member(NamedTuple):
    """A member of an object or a map."""

    element: str
    shape: Shape
    embedded: bool = False
    """Whether it is present, empty, even if it was not set."""
    required: bool = False
    """Whether it is present, with its zero value, even if it was not set."""


def _members(value: Any) -> Mapping[str, Any]:
    """Return the members of what should be an object: custom objects are tracked before validation."""
    return value if isinstance(value, dict) else LEAF


class Granular(Shape):
    """Base of values that are owned member by member: objects and maps."""

    leaf = False

    def member(self, name: str) -> Member | None:
        """Return the shape of a member; None for members without owner."""
        raise NotImplementedError

    def added(self, value: Any) -> Fields:
        node = {SELF: LEAF}
        for name, held in _members(value).items():
            member = self.member(name)
            if member is not None:
                node[member.element] = member.shape.added(held)
        return node if len(node) > 1 else LEAF

    def compare(self, element: str, old: Any, new: Any, changes: Changes) -> None:
        before, after = _members(old), _members(new)
        if not before and not after:  # one of them is null
            changes.modified[element] = LEAF
            return
        for fields, below in zip(changes, self.difference(before, after), strict=True):
            if below:
                fields[element] = below

    def difference(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
        """Record how the members of two values differ."""
        changes = Changes({}, {}, {})
        if not old:  # new objects
            for name, value in new.items():
                member = self.member(name)
                if member is None:
                    continue
                if member.embedded or member.required:
                    _compare_member(member, False, None, value, changes)
                else:
                    changes.added[member.element] = member.shape.added(value)
            return changes
        for name, value in new.items():
            before = old.get(name)
            if before != value or (value is None and name not in old):
                member = self.member(name)
                if member is not None:
                    _compare_member(member, name in old, before, value, changes)
        for name, before in old.items():
            if name not in new:
                member = self.member(name)
                if member is not None:
                    _compare_lost(member, before, changes)
        return changes


def _compare_member(member: Member, present: bool, before: Any, value: Any, changes: Changes) -> None:
    """Compare a member that is new or has another value than before."""
    element, shape, embedded, required = member
    if present:
        shape.compare(element, before, value, changes)
    elif embedded:
        if value != {}:
            shape.compare(element, {}, value, changes)
    elif not required:
        changes.added[element] = shape.added(value)
    elif not _is_zero(shape, value):
        shape.compare(element, None, value, changes)


def _compare_lost(member: Member, before: Any, changes: Changes) -> None:
    """Compare a member that was removed."""
    element, shape, embedded, required = member
    if embedded:
        if before != {}:
            shape.compare(element, before, {}, changes)
    elif not required:
        changes.removed[element] = shape.added(before)
    elif not _is_zero(shape, before):
        shape.compare(element, before, None, changes)


def _is_zero(shape: Shape, value: Any) -> bool:
    """Whether a value is Go's zero value for an absent one; an empty list is not."""
    return not value if isinstance(shape, ScalarShape) else value is None


class Struct(Granular):
    """An object with the members of its type, and possibly others. `silent` ones have no owner."""

    def __init__(
        self,
        members: Callable[[], dict[str, Member]],
        silent: Iterable[str] = (),
        others: Shape | None = None,
    ) -> None:
        self._build = members
        self.silent = frozenset(silent)
        self.others = others
        """The shape of members that the type does not name, if it allows any."""

    @cached_property
    def members(self) -> dict[str, Member]:
        """Built on first use: types may contain themselves."""
        return self._build()

    def member(self, name: str) -> Member | None:
        member = self.members.get(name)
        if member is None and self.others is not None and name not in self.silent:
            return Member(f"f:{name}", self.others)
        return member

    def named(self, value: Any) -> Fields:
        node: Fields = {}
        for name, held in (value or LEAF).items():
            member = self.member(name)
            if member is None:
                continue
            below = member.shape.named(held)
            if name not in self.members:
                node[member.element] = _owned(below)
            elif below or member.shape.leaf or held is None or held == {}:
                node[member.element] = below
        return node


class MapShape(Granular):
    """A map from any names to values of one shape."""

    def __init__(self, value: Shape) -> None:
        self.value = value

    def member(self, name: str) -> Member | None:
        return Member(f"f:{name}", self.value)

    def named(self, value: Any) -> Fields:
        return {f"f:{name}": _owned(self.value.named(held)) for name, held in (value or LEAF).items()}


def _owned(below: Fields) -> Fields:
    """Return the node of a value that is itself owned, whatever is below it."""
    return {SELF: LEAF, **below} if below else LEAF


class Listed(Shape):
    """Base of lists whose items are owned individually."""

    leaf = False

    def __init__(self, item: Shape) -> None:
        self.item = item

    def element(self, item: Any) -> str:
        """Return the path element of an item."""
        raise NotImplementedError

    def items(self, value: Any) -> dict[str, list[Any]]:
        """Group the items by their path elements; only invalid objects have several per element."""
        items: dict[str, list[Any]] = {}
        for item in value if isinstance(value, list) else ():
            items.setdefault(self.element(item), []).append(item)
        return items

    def added(self, value: Any) -> Fields:
        node = {SELF: LEAF}
        for element, items in self.items(value).items():
            node[element] = self.item.added(items[0]) if len(items) == 1 else LEAF
        return node if len(node) > 1 else LEAF

    def named(self, value: Any) -> Fields:
        return {
            element: _owned(self.item.named(items[0])) if len(items) == 1 else LEAF
            for element, items in self.items(value).items()
        }

    def compare(self, element: str, old: Any, new: Any, changes: Changes) -> None:
        if not old and not new:  # one is null and the other is empty
            changes.modified[element] = LEAF
            return
        below = Changes({}, {}, {})
        before, after = self.items(old), self.items(new)
        for key in {**before, **after}:
            was, now = before.get(key, []), after.get(key, [])
            if was != now:
                self._compare_items(key, was, now, below)
        for fields, below_item in zip(changes, below, strict=True):
            if below_item:
                fields[element] = below_item

    def _compare_items(self, element: str, was: list[Any], now: list[Any], changes: Changes) -> None:
        """Compare items with one key. Several of them are compared as one value."""
        if len(was) == 1 and len(now) == 1:
            self.item.compare(element, was[0], now[0], changes)
        elif len(was) > 1 and len(now) > 1:
            changes.modified[element] = LEAF
        else:
            if was:
                changes.removed[element] = self.item.added(was[0]) if len(was) == 1 else LEAF
            if now:
                changes.added[element] = self.item.added(now[0]) if len(now) == 1 else LEAF


class ListMap(Listed):
    """A list of objects that are identified by some of their members."""

    def __init__(self, item: Shape, keys: Iterable[str], defaults: Mapping[str, Any]) -> None:
        super().__init__(item)
        self.keys = tuple(keys)
        self.defaults = defaults
        """Stands for a part of the key that an item leaves out."""

    def element(self, item: Any) -> str:
        members = item if isinstance(item, dict) else LEAF
        key = []
        for name in self.keys:
            value = members.get(name, self.defaults.get(name))
            if value is not None or name in members:
                key.append((name, value))
        return key_element(*key)


class ListSet(Listed):
    """A list of scalars that is a set."""

    def element(self, item: Any) -> str:
        return value_element(item)


class Untyped(Granular):
    """A value without a schema: objects are merged, everything else is a leaf."""

    leaf = True  # the value decides whether it is one

    def member(self, name: str) -> Member | None:
        return Member(f"f:{name}", self)

    def added(self, value: Any) -> Fields:
        return super().added(value) if isinstance(value, dict) else LEAF

    def named(self, value: Any) -> Fields:
        if not isinstance(value, dict):
            return LEAF
        return {f"f:{name}": _owned(self.named(held)) for name, held in value.items()}

    def compare(self, element: str, old: Any, new: Any, changes: Changes) -> None:
        if isinstance(old, dict) and isinstance(new, dict):
            super().compare(element, old, new, changes)
            return
        changes.modified[element] = LEAF
        if isinstance(old, dict) and old:
            changes.removed[element] = self.difference(old, {}).removed
        if isinstance(new, dict) and new:
            changes.added[element] = self.difference({}, new).added


UNTYPED = Untyped()
