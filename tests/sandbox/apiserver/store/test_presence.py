"""Whether there are objects, as tables report it."""

from __future__ import annotations

from mooring.sandbox.apiserver.store.store import Store


def test_presence_follows_its_tables() -> None:
    store = Store()
    store.table("pods").put("a/one", b"}}")
    presence = store.presence(("quotas", "limits"))
    seen = [presence.any]
    for name in ("quotas", "limits"):
        store.table(name).put("a/one", b"}}")
        seen.append(presence.any)
    for name in ("limits", "quotas"):
        store.table(name).delete("a/one")
        seen.append(presence.any)
    assert seen == [False, True, True, True, False]
    assert store.presence(("pods",)).any
    assert store.presence(("quotas", "limits")) is presence


def test_presence_forgets_writes_that_are_undone() -> None:
    store = Store()
    presence = store.presence(("quotas",))
    store.table("quotas").put("a/one", b"}}")
    store.table("quotas").undo()
    assert not presence.any
