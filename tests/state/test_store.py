"""Objects by kind, and the changes that readers have yet to see."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.api.meta import ObjectMeta
from mooring.api.storage import StorageClass
from mooring.state.store import ChangeFeed, ObjectStore

Event = tuple[int, bool]


def storage_class(number: int, uid: int) -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name=f"c{number}", uid=str(uid)))


def apply(store: ObjectStore, events: list[Event]) -> None:
    for uid, (number, add) in enumerate(events):
        if add:
            store.put(storage_class(number, uid))
        else:
            store.remove(StorageClass, f"c{number}")


def test_a_feed_that_is_not_read_is_bounded_by_the_objects() -> None:
    store = ObjectStore()
    feed = store.changes(StorageClass)
    apply(store, [(i % 10, i % 3 > 0) for i in range(20_000)])
    apply(store, [(i, add) for i in range(20_000) for add in (True, False)])
    assert len(feed) <= 2 * ChangeFeed.SPARE


events = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30)


@given(events, events, st.integers(0, 5))
def test_a_late_reader_gets_to_the_same_objects(before: list[Event], after: list[Event], spare: int) -> None:
    store = ObjectStore()
    apply(store, before)
    feed = store.changes(StorageClass)
    seen: dict[str, StorageClass] = {}
    for batch in ([], after):
        feed.SPARE = spare  # merges early after the first read
        apply(store, batch)
        for old, new in feed.take():
            if old is not None:
                assert seen.pop(old.key) is old
            if new is not None:
                assert new.key not in seen
                seen[new.key] = new
    assert sorted(map(id, seen.values())) == sorted(map(id, store.list(StorageClass)))
