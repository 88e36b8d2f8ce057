"""All tables under one version counter, and the flush that makes writes durable and visible."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from mooring.sandbox.apiserver.store.presence import Presence
from mooring.sandbox.apiserver.store.record import Event, Record
from mooring.sandbox.apiserver.store.table import Table
from mooring.sandbox.apiserver.store.watch import Predicate, Watch

WINDOW = 10_000
"""Events that a table keeps, at least; it drops older ones in bulk."""
LONGEST_TURN = 0.01
"""Seconds for which one writer may keep others on the event loop waiting."""
_NOTIFIED: Final = 64  # watches in one turn of the loop


class Journal(Protocol):
    """Keeps writes across restarts."""

    def load(self) -> tuple[int, dict[str, list[Record]]]:
        """Return the last version, and the records of every table."""
        ...

    def append(self, table: str, event: Event) -> None:
        """Append a write; it need not be durable before `commit`."""
        ...

    def commit(self, version: int) -> None:
        """Make everything appended durable, or raise."""
        ...

    def close(self) -> None: ...


class StoreFailedError(RuntimeError):
    """The journal could not be written, so the writes of this moment did not happen."""


class Store:
    """Writes are plain calls; `flush` follows once per turn of the loop and does the rest.

    `soon` schedules the flush after the first write since the last one. With a journal, an answer must wait
    for `settled`, even if it only read what others may have written just now.
    """

    def __init__(self, *, window: int = WINDOW, journal: Journal | None = None) -> None:
        self.failed: StoreFailedError | None = None
        """Why the last flush failed, if it did."""
        self.soon: Callable[[Callable[[], None]], object] = _never
        self._window = window
        self._journal = journal
        self._tables: dict[str, Table] = {}
        self._presences: dict[tuple[str, ...], Presence] = {}
        self._dirty: dict[Table, None] = {}
        self._dirty_since = 0.0
        self._settling: list[asyncio.Future[None]] = []
        version, tables = (1, {}) if journal is None else journal.load()
        self.version = version
        self.visible = version
        """Everything up to this version was flushed."""
        self.origin = version
        """Where history begins: of writes before a restart only the result is kept."""
        for name, records in tables.items():
            self.table(name).load(records)

    def table(self, name: str) -> Table:
        try:
            return self._tables[name]
        except KeyError:
            # threads that make drafts may be the first to read it, too
            return self._tables.setdefault(name, Table(self, name, self._window))

    def tables(self) -> list[Table]:
        return list(self._tables.values())

    def presence(self, names: tuple[str, ...]) -> Presence:
        """Return whether one of these tables has objects, kept up to date."""
        presence = self._presences.get(names)
        if presence is None:
            presence = self._presences[names] = Presence(map(self.table, names))
        return presence

    def next_version(self) -> int:
        self.version += 1
        return self.version

    def wrote(self, table: Table, event: Event) -> None:
        """Register a write of a table."""
        if self._journal is not None:
            self._journal.append(table.name, event)
        if not self._dirty:
            self.soon(self.flush)
            self._dirty_since = time.monotonic()
        self._dirty[table] = None

    def is_turn_over(self) -> bool:
        """Whether writes have kept the flush waiting for long."""
        return bool(self._dirty) and time.monotonic() - self._dirty_since > LONGEST_TURN

    def flush(self) -> None:
        """Make the writes since the last flush durable, then release answers and notify watches.

        If the journal cannot be written, the writes are undone and their answers fail; later ones are tried
        as usual, so the store recovers when the disk does.
        """
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        settling, self._settling = self._settling, []
        if not self._commit():
            self.version = self.visible  # a restart begins there: no client may see a later one before it
            for table in dirty:
                table.undo()
            _settle(settling, self.failed)
            return
        _settle(settling)
        self.visible = self.version
        for table in dirty:
            table.visible = table.end
            self._notify(list(table.watches))

    def _notify(self, watches: list[Watch]) -> None:
        """Notify some watches, and the others once these have sent what is new: there may be thousands."""
        for watch in watches[:_NOTIFIED]:
            watch.notify()
        if len(watches) > _NOTIFIED:
            self.soon(partial(self._notify, watches[_NOTIFIED:]))

    def _commit(self) -> bool:
        if self._journal is not None:
            try:
                self._journal.commit(self.version)
            except Exception as error:
                self.failed = StoreFailedError(f"the data directory cannot be written: {error}")
                return False
        self.failed = None
        return True

    def check(self) -> None:
        """Raise StoreFailedError if the journal could not be written and still cannot be."""
        if self.failed is not None and not self._dirty and not self._commit():
            raise self.failed

    async def settled(self) -> None:
        """Wait until everything written so far is durable. Raises StoreFailedError."""
        if self._journal is not None and self._dirty:
            future = asyncio.get_running_loop().create_future()
            self._settling.append(future)
            await future

    def watch(self, table: Table, after: int, matches: Predicate | None = None) -> Watch:
        """Watch the events after a version. Raises CompactedError."""
        return Watch(table, table.position_after(after), matches)

    def close(self) -> None:
        """End all watches and close the journal."""
        self.flush()
        for table in self._tables.values():
            for watch in tuple(table.watches):
                watch.close()
        if self._journal is not None:
            self._journal.close()


def _settle(settling: list[asyncio.Future[None]], error: Exception | None = None) -> None:
    for future in settling:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)


def _never(flush: Callable[[], None]) -> None:
    """Without an event loop, writers flush themselves."""
