"""The objects of one resource: the current state, and a window of history."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mooring.sandbox.apiserver.store.record import Event, Record

if TYPE_CHECKING:
    from mooring.sandbox.apiserver.store.store import Store
    from mooring.sandbox.apiserver.store.watch import Watch


HISTORY_BYTES = 16 << 20
"""Size of the history that a table keeps; it drops older events in bulk."""


class CompactedError(Exception):
    """A version older than the window was requested; `oldest` is the oldest available."""

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {version} ({oldest})")
        self.version = version
        self.oldest = oldest


class Table:
    """Records by key, and the events that led to them.

    `events` is a list that loses its older half when it reaches twice the window, or twice HISTORY_BYTES.
    Positions count events from the table's beginning, so that a watch keeps its place when events are
    dropped: event `p` is `events[p - dropped]`. Events from `visible` on are not flushed yet, and no watch
    may see them.
    """

    def __init__(self, store: Store, name: str, window: int) -> None:
        self.name = name
        self.records: dict[str, Record] = {}
        self.events: list[Event] = []
        self.history_bytes = 0
        """Size of the objects in `events`."""
        self.dropped = 0
        self.visible = 0
        self.compacted = store.origin
        """States before this version are not available any more."""
        self.watches: dict[Watch, None] = {}  # in the order in which they are notified
        self.listeners: list[Callable[[Event], None]] = []
        """Called within every write: for what the server must do before anything else."""
        self._store = store
        self._window = window
        self._keys = _SortedKeys()
        self._past: tuple[int, int, dict[str, Record]] | None = None

    def __len__(self) -> int:
        return len(self.records)

    def get(self, key: str) -> Record | None:
        return self.records.get(key)

    def load(self, records: list[Record]) -> None:
        """Load records of a former process; they have no history."""
        for record in records:
            self.records[record.key] = record
            self._keys.add(record.key)

    def put(
        self, key: str, tail: bytes, labels: Mapping[str, str] | None = None, fields: tuple[str, ...] = ()
    ) -> Record:
        """Write an object, at a new version."""
        before = self.records.get(key)
        record = Record(key, self._store.next_version(), tail, labels, fields)
        self.records[key] = record
        if before is None:
            self._keys.add(key)
        self._happened(Event("ADDED" if before is None else "MODIFIED", record, before))
        return record

    def delete(self, key: str) -> Record:
        """Remove an object; return its last state at the version of its deletion."""
        before = self.records.pop(key)
        self._keys.discard(key)
        record = before.at(self._store.next_version())
        self._happened(Event("DELETED", record, before))
        return record

    def _happened(self, event: Event) -> None:
        self.events.append(event)
        self.history_bytes += len(event.record.tail)
        if len(self.events) >= 2 * self._window or self.history_bytes >= 2 * HISTORY_BYTES:
            self._compact()
        self._store.wrote(self, event)
        for listener in self.listeners:
            listener(event)

    def _compact(self) -> None:
        """Drop the oldest events, down to the window."""
        events, left = self.events, self.history_bytes
        # never drop what is not flushed: a turn of the loop may write more than a window
        most = self.visible - self.dropped
        gone = 0
        while gone < most and (len(events) - gone > self._window or left > HISTORY_BYTES):
            left -= len(events[gone].record.tail)
            gone += 1
        if gone:
            self.compacted = events[gone - 1].version
            del events[:gone]
            self.dropped += gone
            self.history_bytes = left

    def undo(self) -> None:
        """Take back the events that are not visible yet; listeners receive the inverse changes."""
        while self.end > self.visible:
            event = self.events.pop()
            self.history_bytes -= len(event.record.tail)
            record, before = event.record, event.before
            if before is None:
                del self.records[record.key]
                self._keys.discard(record.key)
                opposite = Event("DELETED", record, record)
            else:
                if event.type == "DELETED":
                    self._keys.add(record.key)
                self.records[record.key] = before
                opposite = Event("ADDED" if event.type == "DELETED" else "MODIFIED", before, record)
            for listener in self.listeners:
                listener(opposite)
        self._past = None

    # ---- reading ----------------------------------------------------------------------------------

    def keys(self, namespace: str = "") -> list[str]:
        """Return the current keys in etcd's order; those of one namespace, or all."""
        return _of_namespace(self._keys.sorted(), namespace)

    def at(self, version: int) -> dict[str, Record]:
        """Return the state at a version inside the window, in the order of keys. Must not be modified."""
        last = self.events[-1].version if self.events else self.compacted
        if self._past is not None and self._past[:2] == (version, last):
            return self._past[2]
        if version < self.compacted:
            raise CompactedError(version, self.compacted)
        state: dict[str, Record | None] = dict(self.records)
        for event in reversed(self.events):
            if event.version <= version:
                break
            state[event.record.key] = event.before
        records = {key: record for key, record in sorted(state.items()) if record is not None}
        self._past = (version, last, records)
        return records

    def position_after(self, version: int) -> int:
        """Return where a watch continues that has seen everything up to `version`."""
        if version < self.compacted:
            raise CompactedError(version, self.compacted)
        return self.dropped + bisect_right(self.events, version, key=_version)

    @property
    def end(self) -> int:
        """The position after the last event."""
        return self.dropped + len(self.events)


def _version(event: Event) -> int:
    return event.version


def _of_namespace(keys: list[str], namespace: str) -> list[str]:
    if not namespace:
        return keys
    start = bisect_left(keys, namespace + "/")
    return keys[start : bisect_left(keys, namespace + "0", start)]  # "0" follows "/"


class _SortedKeys:
    """Keys that are sorted on demand. Appending and sorting nearly sorted lists is cheap."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._dead: set[str] = set()
        self._in_order = True

    def add(self, key: str) -> None:
        if key in self._dead:
            self._dead.remove(key)
            return
        if self._keys and key < self._keys[-1]:
            self._in_order = False
        self._keys.append(key)

    def discard(self, key: str) -> None:
        self._dead.add(key)
        if len(self._dead) > 1000 and 2 * len(self._dead) > len(self._keys):
            self._forget_dead()

    def _forget_dead(self) -> None:
        self._keys = [key for key in self._keys if key not in self._dead]
        self._dead.clear()

    def sorted(self) -> list[str]:
        """Return the current keys in order. Must not be modified."""
        if self._dead:
            self._forget_dead()
        if not self._in_order:
            self._keys.sort()
            self._in_order = True
        return self._keys
