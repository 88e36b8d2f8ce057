"""The API server's journal in a run: it may be lost with its process, be torn, or find no room."""

from __future__ import annotations

import random

from mooring.sandbox.apiserver.store.record import Event, Record
from mooring.sandbox.apiserver.store.sqlite import SqliteJournal
from tests.faults.history import History


class Incarnation:
    """The journal of one life of the API server. Once it has crashed, nothing is committed any more."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.crashed = False

    def load(self) -> tuple[int, dict[str, list[Record]]]:
        return self.history.load()

    def append(self, table: str, event: Event) -> None:
        if not self.crashed:
            self.history.append(table, event)

    def commit(self, version: int) -> None:
        if self.crashed:
            raise OSError("crashed")
        self.history.commit(version)

    def close(self) -> None:
        self.history.close()


class Disk(SqliteJournal):
    """A journal in a file that cannot grow while the disk is full."""

    def fill(self) -> None:
        (pages,) = self._database.execute("PRAGMA page_count").fetchone()
        self._database.execute(f"PRAGMA max_page_count = {pages}")

    def free(self) -> None:
        self._database.execute("PRAGMA max_page_count = 1073741823")

    def tear(self, chance: random.Random) -> None:
        """Leave the files as they are when the process dies in the middle of a write."""
        log = self._path.with_name(self._path.name + "-wal")
        written, database = log.read_bytes(), self._path.read_bytes()
        self.close()
        self._path.write_bytes(database)
        again = written[32 : 32 + chance.randint(0, 5000)]  # the beginning of a transaction as there was one
        log.write_bytes(written + chance.choice((again, chance.randbytes(chance.randint(1, 5000)))))
