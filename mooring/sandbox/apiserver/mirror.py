"""Values derived from all objects of a table, kept until the table changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from mooring.sandbox.apiserver.objects import Tree, decode_record
from mooring.sandbox.apiserver.store.draft import Draft
from mooring.sandbox.apiserver.store.record import Event, Record
from mooring.sandbox.apiserver.store.store import Store

Derived = TypeVar("Derived")


def _itself(tree: Tree) -> Tree:
    return tree


class Mirror(Generic[Derived]):
    """Caches what `derive` makes of the objects of a table; recomputed on first use after a change. `read`
    is called once for each version of an object, and `derive` with all that it has returned.

    Meant for kinds with few objects that rarely change, such as priority classes.
    """

    def __init__(
        self,
        storage: str,
        derive: Callable[[Iterable[Any]], Derived],
        read: Callable[[Tree], Any] = _itself,
    ) -> None:
        self._storage = storage
        self._derive = derive
        self._read = read
        self._items: dict[str, tuple[Record, Any]] = {}
        self._store: Store | None = None
        self._value: Derived
        self._stale = True

    def get(self, store: Store) -> Derived:
        if self._stale or self._store is not store:
            if isinstance(store, Draft):
                return self._get_for(store)
            table = store.table(self._storage)
            if self._store is not store:
                table.listeners.append(self._changed)
                self._store = store
            self._stale = False
            keys = table.keys()
            self._items = {key: self._item(key, table.records[key]) for key in keys}
            self._value = self._derive(item for _, item in self._items.values())
        return self._value

    def _item(self, key: str, record: Record) -> tuple[Record, Any]:
        kept = self._items.get(key)
        if kept is not None and kept[0] is record:
            return kept
        return record, self._read(decode_record(record, "", ""))

    def _get_for(self, draft: Draft) -> Derived:
        """Return the value for a draft, in whose thread nothing may be kept."""
        table = draft.table(self._storage)
        keys = table.keys()  # what the draft depends on, and before the value is read
        if self._store is draft.live and not self._stale:
            return self._value
        return self._derive(self._item(key, table.records[key])[1] for key in keys)

    def _changed(self, event: Event) -> None:
        self._stale = True
