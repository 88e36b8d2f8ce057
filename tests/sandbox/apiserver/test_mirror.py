"""Values derived from the objects of a table."""

from __future__ import annotations

from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree
from tests.sandbox.apiserver.kit import Direct


def test_only_objects_that_changed_are_read_again(direct: Direct) -> None:
    reads: list[str] = []

    def read(tree: Tree) -> str:
        reads.append(tree["metadata"]["name"])
        return reads[-1]

    mirror = Mirror("configmaps", list, read)
    for name in "abc":
        direct.ask("create", "configmaps", body={"metadata": {"name": name}})
    assert [name for name in mirror.get(direct.api.store) if len(name) == 1] == ["a", "b", "c"]
    reads.clear()
    direct.ask("update", "configmaps", "b", {"metadata": {"name": "b"}, "data": {"k": "v"}})
    direct.ask("delete", "configmaps", "a")
    assert [name for name in mirror.get(direct.api.store) if len(name) == 1] == ["b", "c"]
    assert reads == ["b"]
