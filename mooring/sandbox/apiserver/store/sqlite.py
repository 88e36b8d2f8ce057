"""A journal in SQLite: what was answered survives kill -9."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import msgspec

from mooring.sandbox.apiserver.store.record import Event, Record

_FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
  resource TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, tail BLOB NOT NULL,
  labels BLOB NOT NULL, fields BLOB NOT NULL, UNIQUE (resource, key)
);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_PUT = """
INSERT INTO objects (resource, key, version, tail, labels, fields) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (resource, key) DO UPDATE
SET version = excluded.version, tail = excluded.tail, labels = excluded.labels, fields = excluded.fields
"""
_DELETE = "DELETE FROM objects WHERE resource = ? AND key = ?"

_labels = msgspec.json.Decoder(dict[str, str])
_fields = msgspec.json.Decoder(tuple[str, ...])


class DataDirError(RuntimeError):
    """The data directory cannot be used: which, and why."""


class SqliteJournal:
    """The current state of every table, in one file, without history.

    The log is handed to the operating system at every commit and forced to the disk now and then: the death
    of the process loses nothing, a power cut at most the last moments.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "store.sqlite"
        self._pending: dict[tuple[str, str], Record | None] = {}
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(self._path, timeout=0, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._database.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise DataDirError(_problem(directory, error)) from error

    def _open(self) -> None:
        run = self._database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")  # one process at a time
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        self._database.executescript(_SCHEMA)
        format = self._meta("format", _FORMAT)
        if format != _FORMAT:
            raise DataDirError(
                f"{self._path}: found format {format}, expected {_FORMAT}: it was written by another version"
            )
        run("BEGIN IMMEDIATE")
        run("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (_FORMAT,))
        run("COMMIT")

    def _meta(self, name: str, default: int) -> int:
        row = self._database.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return default if row is None else int(row[0])

    def load(self) -> tuple[int, dict[str, list[Record]]]:
        tables: dict[str, list[Record]] = {}
        rows = self._database.execute("SELECT resource, key, version, tail, labels, fields FROM objects")
        for resource, key, version, tail, labels, fields in rows:
            record = Record(key, version, tail, _labels.decode(labels), _fields.decode(fields))
            tables.setdefault(resource, []).append(record)
        return self._meta("version", 1), tables

    def append(self, table: str, event: Event) -> None:
        key = event.record.key
        self._pending[table, key] = None if event.type == "DELETED" else event.record

    def commit(self, version: int) -> None:
        pending, self._pending = self._pending, {}
        written = [
            (table, key, r.version, r.tail, msgspec.json.encode(r.labels), msgspec.json.encode(r.fields))
            for (table, key), r in pending.items()
            if r is not None
        ]
        deleted = [where for where, record in pending.items() if record is None]
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(_PUT, written)
            database.executemany(_DELETE, deleted)
            database.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (version,))
            database.execute("COMMIT")
        except sqlite3.Error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._database.close()


def _problem(directory: Path, error: Exception) -> str:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return f"{directory}: another process uses this data directory; stop it, or use another directory"
    return f"{directory}: cannot be used as a data directory: {error}"
