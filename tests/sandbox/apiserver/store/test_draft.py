"""Drafts depend on what was read from them, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.sandbox.apiserver.store.draft import Draft, OutdatedError
from mooring.sandbox.apiserver.store.store import Store
from mooring.sandbox.apiserver.store.table import Table

Read = Callable[[Table], object]


def store() -> Store:
    store = Store()
    for key in ("a/1", "a/2", "b/1"):
        store.table("pods").put(key, b"{}")
    return store


READS: list[tuple[Read, str]] = [
    (lambda pods: pods.get("a/1"), "a/1"),
    (lambda pods: "a/3" in pods.records, "a/3"),
    (lambda pods: pods.records["a/1"], "a/1"),
    (lambda pods: pods.keys("a"), "a/3"),
    (lambda pods: pods.keys(), "c/1"),
    (lambda pods: list(pods.records.values()), "c/1"),
    (lambda pods: dict(pods.records.items()), "c/1"),
    (lambda pods: list(pods.records), "c/1"),
    (lambda pods: len(pods), "c/1"),
    (lambda pods: pods.put("a/1", b"{}"), "a/1"),
    (lambda pods: pods.delete("a/1"), "a/1"),
]


@pytest.mark.parametrize(("read", "changed"), READS)
def test_a_draft_is_outdated_by_changes_of_what_it_read(read: Read, changed: str) -> None:
    live = store()
    draft = Draft(live)
    read(draft.table("pods"))
    draft.table("other").put("x", b"{}")
    live.table("pods").put(changed, b"{}")
    with pytest.raises(OutdatedError):
        draft.commit()
    assert not live.table("other").records


@pytest.mark.parametrize("read", [READS[0][0], READS[3][0], lambda pods: bool(pods.records)])
def test_other_changes_do_not_matter(read: Read) -> None:
    live = store()
    draft = Draft(live)
    read(draft.table("pods"))
    drafted = draft.table("pods").put("a/9", b"{}", {"x": "y"}, ("f",))
    live.table("pods").put("b/2", b"{}")
    live.table("pods").delete("b/1")
    stored = draft.commit()[drafted]
    assert live.table("pods").get("a/9") is stored
    assert (stored.version, stored.labels, stored.fields) == (live.version, {"x": "y"}, ("f",))


def test_a_table_that_is_no_longer_empty() -> None:
    live = store()
    draft = Draft(live)
    assert not draft.table("quotas").records
    live.table("quotas").put("a/q", b"{}")
    with pytest.raises(OutdatedError):
        draft.commit()


def test_a_draft_reads_its_own_writes_and_nobody_else_does() -> None:
    live = store()
    draft = Draft(live)
    pods = draft.table("pods")
    pods.put("a/0", b"{}")
    pods.delete("a/2")
    assert pods.keys("a") == ["a/0", "a/1"]
    assert live.table("pods").keys("a") == ["a/1", "a/2"]
    draft.commit()
    assert live.table("pods").keys("a") == ["a/0", "a/1"]
