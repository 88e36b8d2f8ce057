"""Which old value belongs to a new one, and whether it is the same: what did not change need not be valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SCALARS = (bool, int, float, str)


class Correlation:
    """A value of an object and the value at its place before the update."""

    def __init__(self, new: Any, old: Any, schema: Mapping[str, Any]) -> None:
        self._new = new
        self._old = old
        self._schema = schema
        self._items: MapItems | None = None
        self._equal: bool | None = None

    def member(self, name: str) -> Correlation | None:
        """Return the values of a member; None unless both have it and the schema knows it."""
        new, old = self._new, self._old
        if not (isinstance(new, dict) and isinstance(old, dict) and name in new and name in old):
            return None
        schema = (self._schema.get("properties") or {}).get(name) or self._schema.get("additionalProperties")
        return Correlation(new[name], old[name], schema) if isinstance(schema, dict) else None

    def item(self, index: int) -> Correlation | None:
        """Return the values of an item, whose old value is found by its keys."""
        schema = self._schema.get("items")
        if not (isinstance(self._new, list) and isinstance(self._old, list) and isinstance(schema, dict)):
            return None
        if self._items is None:
            self._items = MapItems(self._schema, self._old)
        old = self._items.find(self._new[index])
        return None if old is None else Correlation(self._new[index], old, schema)

    @property
    def is_equal(self) -> bool:
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        new, old = self._new, self._old
        if isinstance(new, list) and isinstance(old, list):
            return len(new) == len(old) and self._has_equal_items(new, old)
        if isinstance(new, dict) and isinstance(old, dict):
            members = (self.member(name) for name in new)
            return len(new) == len(old) and all(one is not None and one.is_equal for one in members)
        return type(new) is type(old) and bool(new == old)

    def _has_equal_items(self, new: list[Any], old: list[Any]) -> bool:
        if self._schema.get("x-kubernetes-list-type") != "map":
            return new == old
        items = (self.item(index) for index in range(len(new)))
        return all(one is not None and one.is_equal for one in items)


class MapItems:
    """The items of a list of the type `map`, by their keys; of other lists none is found."""

    def __init__(self, schema: Mapping[str, Any], items: Any) -> None:
        is_map = schema.get("x-kubernetes-list-type") == "map" and isinstance(items, list)
        self._keys: list[str] = schema.get("x-kubernetes-list-map-keys") or [] if is_map else []
        self._items: dict[object, Any] = {}
        for item in items if self._keys else ():
            key = self._key(item)
            if key is not None:
                self._items.setdefault(key, item)

    def find(self, item: Any) -> Any:
        """Return the item with the keys of another one; None if there is none."""
        key = self._key(item)
        return None if key is None else self._items.get(key)

    def _key(self, item: Any) -> object:
        if not self._keys or not isinstance(item, dict):
            return None
        values = [item.get(name) for name in self._keys]
        if not all(isinstance(value, _SCALARS) for value in values):
            return None
        return tuple((type(value), value) for value in values)
