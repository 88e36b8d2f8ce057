"""Whether there are objects of some kinds, kept by their tables."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.sandbox.apiserver.store.record import Event
from mooring.sandbox.apiserver.store.table import Table


class Presence:
    """`any` says whether one of the tables has objects: every write asks, so it is not computed then."""

    __slots__ = ("_tables", "any")

    def __init__(self, tables: Iterable[Table]) -> None:
        self._tables = tuple(tables)
        self.any = False
        for table in self._tables:
            table.listeners.append(self._changed)
        self._look()

    def _changed(self, event: Event) -> None:
        self._look()

    def _look(self) -> None:
        self.any = any(table.records for table in self._tables)
