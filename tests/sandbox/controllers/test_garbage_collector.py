"""Garbage collection: what goes with its owners, what waits, and what is left alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.api.kinds import ApiResource
from mooring.client.api_errors import ApiError
from mooring.sandbox.controllers.garbage_collector import GarbageCollector
from tests.sandbox.controllers.kit import Embedded, Tree, Whole, play, resource

MAPS = resource("configmaps")
CRDS = ApiResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, Whole)
WIDGETS = ApiResource("example.com", "v1", "widgets", True, Whole)


def scene(play_it: Callable[[Embedded], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        play(play_it, GarbageCollector)

    test.__name__ = play_it.__name__
    return test


def config_map(name: str, *owners: Tree, block: bool = True, **more: Any) -> Tree:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    metadata = {"name": name, "ownerReferences": references, **more}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def names(stage: Embedded) -> set[str]:
    return {one["metadata"]["name"] for one in await stage.all("configmaps")}


async def delete(stage: Embedded, name: str, policy: str) -> None:
    await stage.cluster.delete(MAPS, name, stage.namespace, propagation_policy=policy)


async def release(stage: Embedded, name: str) -> None:
    await stage.patch("configmaps", name, {"metadata": {"finalizers": None}})


async def family(stage: Embedded, *, block: bool = True) -> None:
    """An owner, a child that somebody else holds by a finalizer too, and a grandchild."""
    owner = await stage.create(config_map("owner"))
    child = await stage.create(config_map("child", owner, block=block, finalizers=["example.com/hold"]))
    await stage.create(config_map("grandchild", child, block=block))
    await stage.rest()


@scene
async def test_background(stage: Embedded) -> None:
    await family(stage)
    await delete(stage, "owner", "Background")
    await stage.rest()
    assert await names(stage) == {
        "child",
        "grandchild",
    }  # the owner waited for nobody
    assert (await stage.get("configmaps", "child"))["metadata"]["deletionTimestamp"]
    await release(stage, "child")
    await stage.rest()
    assert await names(stage) == set()


@scene
async def test_foreground(stage: Embedded) -> None:
    await family(stage)
    await delete(stage, "owner", "Foreground")
    await stage.rest()
    assert await names(stage) == {"owner", "child"}  # from the leaves up: the grandchild went first
    owner = (await stage.get("configmaps", "owner"))["metadata"]
    assert owner["finalizers"] == ["foregroundDeletion"]
    child = (await stage.get("configmaps", "child"))["metadata"]
    assert child["deletionTimestamp"]
    assert child["finalizers"] == ["example.com/hold"]
    await release(stage, "child")
    await stage.rest()
    assert await names(stage) == set()


@scene
async def test_foreground_waits_for_none_that_does_not_block(stage: Embedded) -> None:
    await family(stage, block=False)
    await delete(stage, "owner", "Foreground")
    await stage.rest()
    assert "owner" not in await names(stage)
    assert (await stage.get("configmaps", "child"))["metadata"]["deletionTimestamp"]


@scene
async def test_orphan(stage: Embedded) -> None:
    await family(stage)
    await delete(stage, "owner", "Orphan")
    await stage.rest()
    assert await names(stage) == {"child", "grandchild"}
    child = (await stage.get("configmaps", "child"))["metadata"]
    assert "ownerReferences" not in child
    assert "deletionTimestamp" not in child


@scene
async def test_one_owner_left_is_enough(stage: Embedded) -> None:
    owners = [await stage.create(config_map(name)) for name in ("one", "two", "three")]
    await stage.create(config_map("child", *owners))
    await stage.rest()
    await delete(stage, "one", "Background")
    await delete(stage, "two", "Foreground")
    await stage.rest()
    assert await names(stage) == {"three", "child"}
    references = (await stage.get("configmaps", "child"))["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in references] == ["three"]
    await delete(stage, "three", "Background")
    await stage.rest()
    assert await names(stage) == set()


@scene
async def test_owners_that_never_were(stage: Embedded) -> None:
    other = await stage.create(config_map("other"))
    for name, change in (
        ("stale", {"uid": "00000000-0000-0000-0000-000000000000"}),  # another object had the name
        ("misnamed", {"name": "nobody"}),
        ("mistaken", {"kind": "Secret"}),
    ):
        body = config_map(name, other)
        body["metadata"]["ownerReferences"][0] |= change
        await stage.create(body)
    await stage.create(config_map("well", other))
    await stage.rest()
    assert await names(stage) == {"other", "well"}


@scene
async def test_owners_of_unknown_kinds_keep_what_they_own(stage: Embedded) -> None:
    stranger = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "uid": "00000000-0000-0000-0000-000000000000"},
    }
    await stage.create(config_map("child", stranger))
    await stage.advance(600)
    assert await names(stage) == {"child"}
    await stage.cluster.create(CRDS, definition())
    await stage.rest()
    assert await names(stage) == set()  # the kind is served now: there is no such owner


@scene
async def test_custom_kinds(stage: Embedded) -> None:
    await stage.cluster.create(CRDS, definition())
    await stage.rest()
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    widget = await stage.cluster.create(WIDGETS, body, stage.namespace)
    owner = {**body, "metadata": {"name": "w", "uid": widget.uid}}
    await stage.create(config_map("child", owner))
    await stage.cluster.create(
        WIDGETS, {**body, "metadata": {**config_map("sub", owner)["metadata"]}}, stage.namespace
    )
    await stage.rest()
    assert await names(stage) == {"child"}
    await stage.cluster.delete(WIDGETS, "w", stage.namespace, propagation_policy="Foreground")
    await stage.rest()
    assert await names(stage) == set()
    assert (await stage.cluster.list(WIDGETS)).items == []
    await stage.cluster.delete(CRDS, "widgets.example.com")
    await stage.advance(600)
    with pytest.raises(ApiError, match="could not find the requested resource"):
        await stage.cluster.list(WIDGETS)


@scene
async def test_a_circle_of_owners_goes(stage: Embedded) -> None:
    one = await stage.create(config_map("one"))
    two = await stage.create(config_map("two", one))
    references = config_map("one", two)["metadata"]["ownerReferences"]
    await stage.patch("configmaps", "one", {"metadata": {"ownerReferences": references}})
    await stage.rest()
    assert await names(stage) == {"one", "two"}
    await delete(stage, "one", "Foreground")
    await stage.rest()
    assert await names(stage) == set()


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_what_was_begun_before_a_restart_is_finished(tmp_path: Path, policy: str) -> None:
    async def before(stage: Embedded) -> None:
        owner = await stage.create(config_map("owner"))
        await stage.create(config_map("child", owner))
        await delete(stage, "owner", policy)
        assert await names(stage) == {"owner", "child"}

    async def after(stage: Embedded) -> None:
        await stage.rest()
        assert await names(stage) == ({"child"} if policy == "Orphan" else set())

    play(before, data_dir=tmp_path)
    play(after, GarbageCollector, data_dir=tmp_path)


def test_owners_that_vanished_while_nobody_looked(tmp_path: Path) -> None:
    async def before(stage: Embedded) -> None:
        owner = await stage.create(config_map("owner"))
        await stage.create(config_map("child", owner))
        await delete(stage, "owner", "Background")

    async def after(stage: Embedded) -> None:
        await stage.rest()
        assert await names(stage) == set()

    play(before, data_dir=tmp_path)
    play(after, GarbageCollector, data_dir=tmp_path)


def definition() -> Tree:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
