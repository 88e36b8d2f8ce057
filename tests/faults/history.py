"""What happened in a run: every committed write and every request, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import msgspec

from mooring.sandbox.apiserver.store.record import Event, Record
from mooring.sandbox.apiserver.store.store import Journal

CLIENT: ContextVar[str] = ContextVar("client", default="server")
"""The client whose request is being handled."""


class Entry(NamedTuple):
    """One committed write."""

    version: int
    time: float
    client: str
    type: str
    table: str
    key: str
    body: bytes

    @property
    def tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = msgspec.json.decode(self.body)
        return tree


class History:
    """The journal of an API server, which also keeps what is committed, in order. `inner` makes it durable.

    `digest` identifies the history: two runs of a seed have the same.
    """

    def __init__(self, clock: Callable[[], float], on_commit: Callable[[Entry], None]) -> None:
        self.entries: list[Entry] = []
        self.versions: dict[tuple[str, str], list[int]] = {}
        """The versions of each object that were committed, by table and key."""
        self.requests = 0
        self.log: list[str] | None = None
        """A line for every request and fault; None if they are not logged."""
        self.inner: Journal | None = None
        self._clock = clock
        self._on_commit = on_commit
        self._hash = hashlib.sha256()
        self._pending: list[Entry] = []

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def note(self, line: str) -> None:
        """Record something that is not a write."""
        line = f"{self._clock():.6f} {line}"
        self._hash.update(line.encode())
        if self.log is not None:
            self.log.append(line)

    # ---- the journal of the store

    def load(self) -> tuple[int, dict[str, list[Record]]]:
        return (1, {}) if self.inner is None else self.inner.load()

    def append(self, table: str, event: Event) -> None:
        record = event.record
        self._pending.append(
            Entry(event.version, self._clock(), CLIENT.get(), event.type, table, record.key, record.body)
        )
        if self.inner is not None:
            self.inner.append(table, event)

    def commit(self, version: int) -> None:
        pending, self._pending = self._pending, []
        if self.inner is not None:
            self.inner.commit(version)
        for entry in pending:
            self.note(f"{entry.client}: {entry.type} {entry.table} {entry.key} at {entry.version}")
            self._hash.update(entry.body)
            self.entries.append(entry)
            self.versions.setdefault((entry.table, entry.key), []).append(entry.version)
            self._on_commit(entry)

    def drop_pending(self) -> None:
        """The server crashed: what was not committed did not happen."""
        self._pending.clear()

    def close(self) -> None:
        if self.inner is not None:
            self.inner.close()
