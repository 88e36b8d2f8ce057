"""Tables: versions, history, and the state at any version inside the window."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.store.store import Store
from mooring.sandbox.apiserver.store.table import CompactedError
from mooring.sandbox.apiserver.store.watch import Watch

KEYS = st.sampled_from(["a/x", "a/y", "a-b/x", "b/x", "b.c/z"])
WRITES = st.lists(st.tuples(KEYS, st.booleans(), st.sampled_from(["red", "blue"])), max_size=60)


def write(store: Store, writes: list[tuple[str, bool, str]]) -> list[dict[str, tuple[int, bytes]]]:
    """Make writes (deleting what is there where asked to), and return the state after each version."""
    table = store.table("things")
    states = [{}]  # type: list[dict[str, tuple[int, bytes]]]
    for number, (key, delete, colour) in enumerate(writes):
        if delete and table.get(key) is not None:
            table.delete(key)
        else:
            table.put(key, b'"n":%d}}' % number, {"colour": colour})
        states.append({k: (r.version, r.tail) for k, r in table.records.items()})
    return states


def test_versions_are_one_counter_for_all_tables() -> None:
    store = Store()
    first = store.table("a").put("x", b"}}")
    second = store.table("b").put("x", b"}}")
    third = store.table("a").delete("x")
    assert (first.version, second.version, third.version) == (2, 3, 4)


def test_a_body_tells_its_version() -> None:
    record = Record("a/x", 7, b'"name":"x"}}')
    assert record.body == b'{"metadata":{"resourceVersion":"7","name":"x"}}'
    assert record.at(9).body == b'{"metadata":{"resourceVersion":"9","name":"x"}}'
    assert (record.namespace, record.name) == ("a", "x")


@given(WRITES)
def test_keys_are_in_the_order_of_etcd(writes: list[tuple[str, bool, str]]) -> None:
    store = Store()
    table = store.table("things")
    for index, one in enumerate(writes):
        write(store, [one])
        if index % 3 == 0:  # asking in between must not spoil the order
            table.keys()
    assert table.keys() == sorted(table.records)
    assert table.keys("a") == sorted(key for key in table.records if key.startswith("a/"))


@given(WRITES, st.integers(1, 10))
def test_the_past_is_told_exactly_or_not_at_all(writes: list[tuple[str, bool, str]], window: int) -> None:
    store = Store(window=window)
    table = store.table("things")
    states = []
    for one in writes:
        states += write(store, [one])[1:]
        store.flush()
    for version, state in enumerate(states, start=2):
        if version < table.compacted:
            with pytest.raises(CompactedError):
                table.at(version)
        else:
            assert {k: (r.version, r.tail) for k, r in table.at(version).items()} == state
    assert len(table.events) < 2 * window or not writes


@given(WRITES, st.data())
def test_a_watch_from_any_version_leads_to_the_present(
    writes: list[tuple[str, bool, str]], data: st.DataObject
) -> None:
    """Whatever is selected, the state at the start plus the events is the state at the end."""
    store = Store()
    table = store.table("things")
    write(store, writes)
    store.flush()
    start = data.draw(st.integers(1, store.version))
    colour = data.draw(st.sampled_from([None, "red"]))

    def selected(record: Record) -> bool:
        return colour is None or record.labels["colour"] == colour

    state = {k: r.version for k, r in table.at(start).items() if selected(r)}
    watch = Watch(table, table.position_after(start), None if colour is None else selected)
    last = start
    while changes := watch.take(7):
        for type, record in changes:
            assert record.version > last
            last = record.version
            if type == "DELETED":
                del state[record.key]
            else:
                assert (record.key in state) == (type == "MODIFIED")
                state[record.key] = record.version
    assert state == {k: r.version for k, r in table.records.items() if selected(r)}


def test_events_are_seen_after_the_flush_only() -> None:
    store = Store()
    table = store.table("things")
    watch = store.watch(table, store.version)
    table.put("x", b"}}")
    assert watch.take(10) == []
    store.flush()
    assert [type for type, _ in watch.take(10)] == ["ADDED"]


def test_a_watch_that_is_too_slow_is_told_so() -> None:
    store = Store(window=5)
    table = store.table("things")
    watch = store.watch(table, store.version)
    for _ in range(30):
        table.put("x", b"}}")
        store.flush()
    with pytest.raises(CompactedError):
        watch.take(10)
    with pytest.raises(CompactedError):
        store.watch(table, 2)


def test_large_objects_have_a_shorter_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.sandbox.apiserver.store.table.HISTORY_BYTES", 1000)
    store = Store()
    table = store.table("things")
    watch = store.watch(table, store.version)
    for number in range(100):
        table.put("x", b"x" * 97 + b"%d}}" % (number % 10))
        store.flush()
    assert 1000 <= table.history_bytes < 2000
    assert table.history_bytes == sum(len(event.record.tail) for event in table.events)
    with pytest.raises(CompactedError):
        watch.take(10)
    assert table.at(table.compacted)["x"].version == table.compacted
    for _ in range(30):  # more than twice the bound, which is not flushed and must stay
        table.put("y", b"y" * 98 + b"}}")
    table.undo()
    assert table.get("y") is None
    assert table.history_bytes == sum(len(event.record.tail) for event in table.events)


def test_deleted_keys_are_forgotten_though_nothing_is_listed() -> None:
    store = Store(window=5)
    table = store.table("things")
    for number in range(5000):
        table.put(f"x{number}", b"}}")
        table.delete(f"x{number}")
        store.flush()
    assert len(table._keys._keys) < 3000
    table.put("a", b"}}")
    assert table.keys() == ["a"]


def test_a_flush_shows_more_than_a_window_at_once() -> None:
    store = Store(window=5)
    table = store.table("things")
    watch = store.watch(table, store.version)
    for _ in range(30):
        table.put("x", b"}}")
    store.flush()
    assert len(watch.take(100)) == 30


def test_a_watch_that_waits_and_is_left_behind_wakes_up_to_be_told() -> None:
    """Its selector is not asked about events that are long forgotten."""

    async def leave_behind() -> None:
        store = Store(window=5)
        table = store.table("things")
        watch = store.watch(table, store.version, lambda record: record.labels.get("colour") == "red")
        waiting = asyncio.create_task(watch.wait())
        await asyncio.sleep(0)
        table.put("x", b"}}", {"colour": "red"})
        store.flush()  # wakes the watch, which does not get its turn
        for _ in range(30):
            table.put("x", b"}}", {"colour": "blue"})
            store.flush()
        await waiting
        with pytest.raises(CompactedError):
            watch.take(10)

    asyncio.run(leave_behind())


def test_a_failing_selector_ends_its_own_watch_only() -> None:
    def fails(record: Record) -> bool:
        raise RecursionError

    async def scenario() -> None:
        store = Store()
        table = store.table("things")
        broken, sound = store.watch(table, 1, fails), store.watch(table, 1)
        waiting = [asyncio.create_task(watch.wait()) for watch in (broken, sound)]
        await asyncio.sleep(0)
        table.put("a/x", b"}}")
        store.flush()
        await asyncio.gather(*waiting)
        assert broken.closed
        assert [change[0] for change in sound.take(10)] == ["ADDED"]

    asyncio.run(scenario())


def test_changes_are_delivered_within_the_flush_and_in_turns() -> None:
    async def scenario() -> None:
        store = Store()
        table = store.table("things")
        table.put("a", b"}}")
        store.flush()
        seen: list[str] = []
        watch = store.watch(table, 1)
        delivering = asyncio.create_task(watch.deliver(lambda type, record: seen.append(record.key)))
        await asyncio.sleep(0)
        assert seen == ["a"]
        table.put("b", b"}}")
        store.flush()
        assert seen == ["a", "b"]
        for number in range(600):
            table.put(f"c{number}", b"}}")
        store.flush()
        assert len(seen) < 600  # others on the loop have their turn
        while len(seen) < 602:
            await asyncio.sleep(0)
        watch.close()
        await delivering

    asyncio.run(scenario())


def test_a_failing_listener_ends_its_own_watch_only() -> None:
    def fails(type: str, record: Record) -> None:
        raise RecursionError

    async def scenario() -> None:
        store = Store()
        table = store.table("things")
        broken, sound = store.watch(table, 1), store.watch(table, 1)
        delivering = asyncio.create_task(broken.deliver(fails))
        await asyncio.sleep(0)
        table.put("a", b"}}")
        store.flush()
        table.put("b", b"}}")
        store.flush()
        with pytest.raises(RecursionError):
            await delivering
        assert [record.key for _, record in sound.take(10)] == ["a", "b"]

    asyncio.run(scenario())
