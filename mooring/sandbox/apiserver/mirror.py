"""Values derived from all objects of a table, kept until the table changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from mooring.sandbox.apiserver.objects import Tree, decode_record, read_all
from mooring.sandbox.apiserver.store.draft import Draft
from mooring.sandbox.apiserver.store.record import Event
from mooring.sandbox.apiserver.store.store import Store

Derived = TypeVar("Derived")


class Mirror(Generic[Derived]):
    """Caches what `derive` makes of the objects of a table; recomputed on first use after a change.

    Meant for kinds with few objects that rarely change, such as priority classes.
    """

    def __init__(self, storage: str, derive: Callable[[Iterable[Tree]], Derived]) -> None:
        self._storage = storage
        self._derive = derive
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
            self._value = self._derive(read_all(table))
        return self._value

    def _get_for(self, draft: Draft) -> Derived:
        """Return the value for a draft, in whose thread nothing may be kept."""
        table = draft.table(self._storage)
        keys = table.keys()  # what the draft depends on, and before the value is read
        if self._store is draft.live and not self._stale:
            return self._value
        return self._derive(decode_record(table.records[key], "", "") for key in keys)

    def _changed(self, event: Event) -> None:
        self._stale = True
