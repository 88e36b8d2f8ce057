"""What is kept of a cluster in memory, and who tells it first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.api.kinds import PODS, ApiResource
from mooring.api.meta import KubeObject, ObjectMeta, OwnerReference
from mooring.api.objects import Pod
from mooring.client.cache import MOST_GONE, Cache, Collection
from mooring.sandbox.apiserver.server import EmbeddedServer

MAPS = ApiResource("", "v1", "configmaps", True, KubeObject)


def config_map(version: int, uid: str = "u1", **more: str) -> KubeObject:
    return KubeObject(
        metadata=ObjectMeta(name="m", namespace="n", uid=uid, resource_version=str(version), labels=more)
    )


def test_an_answer_that_comes_after_the_end_does_not_bring_an_object_back() -> None:
    maps = Collection(MAPS)
    told: list[tuple[KubeObject | None, KubeObject | None]] = []
    maps.subscribe(lambda old, new: told.append((old, new)))
    maps.apply(config_map(1))
    maps.delete(config_map(3))
    maps.wrote(config_map(2))
    assert maps.get("n/m") is None
    assert len(told) == 2
    maps.wrote(config_map(4, "u2"))  # another by its name is another
    maps.wrote(config_map(2))
    found = maps.get("n/m")
    assert found is not None
    assert found.uid == "u2"


def test_what_was_written_is_known_at_once_and_told_once() -> None:
    maps = Collection(MAPS)
    versions: list[str] = []
    maps.subscribe(lambda old, new: versions.append(new.metadata.resource_version if new else "gone"))
    maps.apply(config_map(1))
    maps.wrote(config_map(3, app="new"))
    maps.apply(config_map(2))  # the informer is late
    maps.apply(config_map(3, app="new"))
    assert versions == ["1", "3"]


def test_the_memory_of_the_gone_is_bounded() -> None:
    maps = Collection(MAPS)
    for number in range(MOST_GONE + 10):
        maps.apply(config_map(number + 1, f"u{number}"))
        maps.delete(config_map(number + 1, f"u{number}"))
    assert len(maps._gone) == MOST_GONE


def owned(version: int, kind: str = "") -> KubeObject:
    owners = [OwnerReference(kind=kind, name="o", uid="o1", controller=True)] if kind else []
    meta = ObjectMeta(name="m", namespace="n", uid="u1", resource_version=str(version))
    return KubeObject(metadata=replace(meta, owner_references=owners))


def test_owners_are_told_of_what_is_theirs_or_nobodys() -> None:
    maps = Collection(MAPS)
    told: list[str] = []
    maps.apply(owned(1, "Job"))
    for kind in ("Job", "ReplicaSet"):
        maps.subscribe_owner(kind, lambda old, new, kind=kind: told.append(kind))  # type: ignore[misc]
    assert told == ["Job"]
    expected = {2: ("Job", ["Job"]), 3: ("", ["Job", "ReplicaSet"]), 4: ("ReplicaSet", ["Job", "ReplicaSet"])}
    expected |= {5: ("Job", ["Job", "ReplicaSet"]), 6: ("DaemonSet", ["Job"]), 10: ("DaemonSet", [])}
    for version, (kind, those) in expected.items():
        told.clear()
        maps.apply(owned(version, kind))
        assert sorted(told) == those, (version, kind)
    told.clear()
    maps.delete(owned(11, "DaemonSet"))
    assert not told


def test_who_wants_no_updates_hears_of_coming_and_going() -> None:
    maps = Collection(MAPS)
    told: list[list[str]] = []
    maps.apply(config_map(1))
    maps.subscribe(lambda *change: told.append([one.uid if one else "" for one in change]), updates=False)
    maps.apply(config_map(2))
    maps.apply(config_map(3, "u2"))  # the end of the first was missed
    maps.apply(config_map(4, "u2"))
    maps.delete(config_map(5, "u2"))
    assert told == [["", "u1"], ["u1", "u2"], ["u2", ""]]


def _labels(obj: KubeObject) -> tuple[str, ...]:
    return tuple(obj.metadata.labels.values())


def _owner(obj: KubeObject) -> tuple[str, ...]:
    return tuple(owner.uid for owner in obj.metadata.owner_references)


def _uid(obj: KubeObject) -> tuple[str, ...]:
    return (obj.uid,)


STEPS = st.tuples(*map(st.sampled_from, ("mn", "12", "abc", "xy-")))
"""Name, uid, owner (c: none) and label (-: deleted)."""


@given(st.lists(STEPS, max_size=20))
def test_indexes_find_what_a_look_at_every_object_finds(steps: Iterable[tuple[str, str, str, str]]) -> None:
    maps = Collection(MAPS)
    maps.index("label", _labels)
    maps.index("owner", _owner, key="owners")
    maps.index("uid", _uid, key="identity")
    for number, (name, uid, owner, label) in enumerate(steps):
        owners = [] if owner == "c" else [OwnerReference(uid=owner, kind="Job", name="o", controller=True)]
        meta = ObjectMeta(name=name, namespace="n", uid=name + uid, resource_version=f"{number + 10}")
        obj = KubeObject(metadata=replace(meta, owner_references=owners, labels={"l": label}))
        if label == "-":
            maps.delete(obj)
        else:
            maps.apply(obj)
        for index, keys in (("label", _labels), ("owner", _owner), ("uid", _uid), ("controller", _owner)):
            for key in ("x", "y", "a", "b", "m1", "m2", "n1", "n2"):
                found = {one.uid for one in maps.by(index, key)}
                assert found == {one.uid for one in maps if key in keys(one)}, (index, key)


def test_metadata_alone_leaves_the_model_to_others_while_there_is_nothing() -> None:
    """As the garbage collector does, which may see a new kind before its controller starts."""
    generic = ApiResource("", "v1", "pods", True, KubeObject)

    async def scene() -> None:
        async with EmbeddedServer() as server:
            cache = Cache(server.cluster)
            running = asyncio.create_task(cache.run())
            first = cache.follow(generic)
            await cache.caught_up()
            assert cache.follow(PODS) is first
            assert first.kind == "Pod", "events name it"
            await server.cluster.create(
                PODS,
                {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
                "default",
            )
            await cache.caught_up()
            while not len(first):
                await asyncio.sleep(0.01)
            assert [type(one) for one in first] == [Pod]
            with pytest.raises(TypeError, match="pods are already read as Pod, not as KubeObject"):
                cache.follow(generic)
            running.cancel()

    asyncio.run(scene())


class Key(str):
    """A key of an index; `compared` counts comparisons of all keys."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Key.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_an_object_with_many_keys_is_indexed_in_linear_time() -> None:
    maps = Collection(MAPS)
    maps.index("key", lambda one: tuple(Key(f"{one.metadata.resource_version}-{n}") for n in range(1000)))
    for version in range(3):
        maps.apply(config_map(version))
    assert Key.compared < 10_000
    assert maps.first("key", "1-0") is None
    assert maps.first("key", "2-999") is maps.get("n/m")
