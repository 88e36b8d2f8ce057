"""A draft of writes: made in a thread from what is stored, and committed on the loop if that is still so."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import NamedTuple, overload

from mooring.sandbox.apiserver.store.presence import Presence
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.store.store import Store
from mooring.sandbox.apiserver.store.table import Table


class OutdatedError(Exception):
    """What a draft has read has changed since."""


class Draft(Store):
    """A copy of a store that notes what is read from it and what is written to it.

    Each table is copied when it is first read. That takes one operation of the interpreter, so a draft may be
    used in a thread while the store changes.
    """

    def __init__(self, live: Store) -> None:
        super().__init__()
        self.version = self.visible = live.version
        self.live = live
        self.writes: list[_DraftedWrite] = []

    def table(self, name: str) -> Table:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _DraftTable(self, name, self.live.table(name))
        return table

    def presence(self, names: tuple[str, ...]) -> Presence:
        return self.live.presence(names)

    def commit(self) -> dict[Record, Record]:
        """Write to the store; return the stored records by the drafted ones. Raises OutdatedError."""
        for table in self._tables.values():
            assert isinstance(table, _DraftTable)
            if not table.is_current(self.live.table(table.name)):
                raise OutdatedError
        stored: dict[Record, Record] = {}
        for table_name, type, record in self.writes:
            table = self.live.table(table_name)
            if type == "DELETED":
                stored[record] = table.delete(record.key)
            else:
                stored[record] = table.put(record.key, record.tail, record.labels, record.fields)
        return stored


class _DraftedWrite(NamedTuple):
    table: str
    type: str
    record: Record


class _DraftTable(Table):
    """A copy of a table. Its own writes have no version yet."""

    def __init__(self, draft: Draft, name: str, live: Table) -> None:
        super().__init__(draft, name, 0)
        self._draft = draft
        self.dropped = live.end
        self._last = live.events[-1:]
        self._copied: Mapping[str, Record] = live.records.copy()
        self._reads = _Reads(self._copied)
        self.records = self._reads

    def is_current(self, live: Table) -> bool:
        """Whether what was read from this copy is still the same in the table."""
        if live.events[-1:] == self._last:
            return True
        reads, now = self._reads, live.records
        if reads.asked_if_empty and bool(now) != bool(self._copied):
            return False
        if any(now.get(key) is not self._copied.get(key) for key in reads.keys_read):
            return False
        return all(_within(now, prefix) == _within(self._copied, prefix) for prefix in reads.prefixes_read)

    def put(
        self, key: str, tail: bytes, labels: Mapping[str, str] | None = None, fields: tuple[str, ...] = ()
    ) -> Record:
        record = Record(key, 0, tail, labels, fields)
        self._write("ADDED" if self.records.get(key) is None else "MODIFIED", record)
        self.records[key] = record
        return record

    def delete(self, key: str) -> Record:
        record = self.records[key].at(0)
        self._write("DELETED", record)
        del self.records[key]
        return record

    def _write(self, type: str, record: Record) -> None:
        self._draft.writes.append(_DraftedWrite(self.name, type, record))

    def keys(self, namespace: str = "") -> list[str]:
        prefix = f"{namespace}/" if namespace else ""
        return sorted(self._reads.keys_within(prefix))


class _Reads(dict[str, Record]):
    """The records of a table, and which of them were read."""

    def __init__(self, records: Mapping[str, Record]) -> None:
        super().__init__(records)
        self.keys_read: set[str] = set()
        self.prefixes_read: set[str] = set()
        """An empty one stands for the whole table."""
        self.asked_if_empty = False

    def keys_within(self, prefix: str) -> Iterable[str]:
        self.prefixes_read.add(prefix)
        return [key for key in super().__iter__() if key.startswith(prefix)]

    def __contains__(self, key: object) -> bool:
        self.keys_read.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Record:
        self.keys_read.add(key)
        return super().__getitem__(key)

    @overload  # type: ignore[override]
    def get(self, key: str) -> Record | None: ...
    @overload
    def get(self, key: str, default: Record) -> Record: ...
    def get(self, key: str, default: Record | None = None) -> Record | None:
        self.keys_read.add(key)
        return super().get(key, default)

    def __bool__(self) -> bool:
        self.asked_if_empty = True
        return super().__len__() > 0

    def __len__(self) -> int:
        self.prefixes_read.add("")
        return super().__len__()

    def __iter__(self) -> Iterator[str]:
        self.prefixes_read.add("")
        return super().__iter__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        self.prefixes_read.add("")
        return super().keys()

    def values(self) -> ValuesView[Record]:  # type: ignore[override]
        self.prefixes_read.add("")
        return super().values()

    def items(self) -> ItemsView[str, Record]:  # type: ignore[override]
        self.prefixes_read.add("")
        return super().items()


def _within(records: Mapping[str, Record], prefix: str) -> Mapping[str, Record]:
    if not prefix:
        return records
    return {key: record for key, record in records.items() if key.startswith(prefix)}
