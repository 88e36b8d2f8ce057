"""The data directory: what was answered survives, and one process at a time has it."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.sandbox.apiserver.store.sqlite import DataDirError, SqliteJournal
from mooring.sandbox.apiserver.store.store import Store, StoreFailedError
from mooring.sandbox.apiserver.store.table import CompactedError

WRITER = """
import sys
from pathlib import Path
from mooring.sandbox.apiserver.store.sqlite import SqliteJournal
from mooring.sandbox.apiserver.store.store import Store
store = Store(journal=SqliteJournal(Path(sys.argv[1])))
number = 0
while True:
    for key in ("a", "b", "c"):
        store.table("things").put(key, b'"n":%d}}' % number, {"n": str(number)}, ("f",))
        store.table("things").put("gone", b'}}')
        store.table("things").delete("gone")
    store.flush()
    print(number, store.version, flush=True)
    number += 1
"""


def test_what_was_flushed_is_there_again(tmp_path: Path) -> None:
    store = Store(journal=SqliteJournal(tmp_path))
    table = store.table("pods")
    table.put("a/x", b'"name":"x"}}', {"l": "1"}, ("node",))
    table.put("a/y", b'"name":"y"}}')
    table.delete("a/y")
    store.close()

    again = Store(journal=SqliteJournal(tmp_path))
    found = again.table("pods").get("a/x")
    assert found is not None
    assert (found.version, found.tail, found.labels, found.fields) == (
        2,
        b'"name":"x"}}',
        {"l": "1"},
        ("node",),
    )
    assert again.table("pods").keys() == ["a/x"]
    assert again.version == 4
    with pytest.raises(CompactedError):  # history begins anew
        again.watch(again.table("pods"), 2)
    again.close()


def test_kill_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()  # what was said between reading and dying counts as well
    process.wait()
    process.stdout.close()
    complete = [line for line in lines if line.endswith("\n")]
    number, version = map(int, complete[-1].split())

    store = Store(journal=SqliteJournal(tmp_path))
    assert store.version >= version
    table = store.table("things")
    assert table.keys() == ["a", "b", "c"]
    assert {int(record.labels["n"]) for record in table.records.values()} <= {number, number + 1}
    assert len({record.labels["n"] for record in table.records.values()}) == 1, (
        "a flush is whole or not there"
    )
    store.close()


def test_a_data_directory_has_one_process(tmp_path: Path) -> None:
    store = Store(journal=SqliteJournal(tmp_path))
    store.table("things").put("a", b"}}")
    store.flush()
    with pytest.raises(DataDirError, match="another process uses this data directory"):
        SqliteJournal(tmp_path)
    store.close()


def test_the_data_is_for_its_owner_only(tmp_path: Path) -> None:
    store = Store(journal=SqliteJournal(tmp_path / "new"))
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "store.sqlite").stat().st_mode & 0o777 == 0o600
    store.close()


def test_a_format_of_another_time_is_refused(tmp_path: Path) -> None:
    Store(journal=SqliteJournal(tmp_path)).close()
    with sqlite3.connect(tmp_path / "store.sqlite") as database:
        database.execute("UPDATE meta SET value = 99 WHERE name = 'format'")
    database.close()
    with pytest.raises(DataDirError, match="found format 99, expected 1"):
        SqliteJournal(tmp_path)


class FullDisk(SqliteJournal):
    """A journal on a disk that is full for a time."""

    full = False

    def commit(self, version: int) -> None:
        pages = self._database.execute("PRAGMA page_count").fetchone()[0]
        self._database.execute(f"PRAGMA max_page_count = {pages if self.full else 2**30}")
        super().commit(version)


def test_a_full_disk_undoes_the_writes_and_recovers(tmp_path: Path) -> None:
    async def scenario() -> None:
        journal = FullDisk(tmp_path)
        store = Store(journal=journal)
        store.soon = asyncio.get_running_loop().call_soon
        table = store.table("things")
        table.put("a", b'"n":1}}')
        table.put("b", b'"n":1}}')
        await store.settled()
        watch = store.watch(table, store.version)
        heard: list[tuple[str, str]] = []
        table.listeners.append(lambda event: heard.append((event.type, event.record.key)))
        before = dict(table.records)
        journal.full = True
        table.put("a", b'"n":2,"large":"' + b"x" * 100_000 + b'"}}')
        table.delete("b")
        table.put("c", b'"n":2}}')
        with pytest.raises(StoreFailedError, match="cannot be written: database or disk is full"):
            await store.settled()
        assert table.records == before
        assert table.keys() == ["a", "b"]
        assert watch.take(10) == []
        assert heard[3:] == [("DELETED", "c"), ("ADDED", "b"), ("MODIFIED", "a")]
        assert store.failed is not None
        await store.settled()  # reads go on
        journal.full = False
        store.check()
        table.put("c", b'"n":3}}')
        await store.settled()
        assert [(type, record.key) for type, record in watch.take(10)] == [("ADDED", "c")]
        store.close()
        again = Store(journal=SqliteJournal(tmp_path))
        assert {key: record.tail for key, record in again.table("things").records.items()} == {
            "a": b'"n":1}}',
            "b": b'"n":1}}',
            "c": b'"n":3}}',
        }
        again.close()

    asyncio.run(scenario())


def test_a_list_on_a_full_disk_has_the_version_of_a_restart(tmp_path: Path) -> None:
    journal = FullDisk(tmp_path)
    store = Store(journal=journal)
    store.table("things").put("a", b'"n":1}}')
    store.flush()
    journal.full = True
    store.table("things").put("b", b'"large":"' + b"x" * 100_000 + b'"}}')
    store.flush()
    listed = store.version
    journal.close()  # it is killed
    again = Store(journal=SqliteJournal(tmp_path))
    watch = again.watch(again.table("things"), listed)
    assert again.table("things").put("c", b'"n":1}}').version == listed + 1
    again.flush()
    assert [record.key for _, record in watch.take(10)] == ["c"]
    again.close()


def test_readiness_fails_while_the_disk_does(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    store = Store(journal=journal)
    journal.close()
    store.table("things").put("a", b"}}")
    store.flush()
    with pytest.raises(StoreFailedError, match="data directory cannot be written"):
        store.check()
