"""The port without HTTP: what the scheduler, controllers and tests ask the embedded store through."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mooring.api.kinds import EVENTS, NODES, PODS, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.client.api_errors import ApiError
from mooring.client.port import Cluster
from mooring.sandbox.apiserver import EmbeddedServer, port
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.store import store
from mooring.sandbox.apiserver.store.sqlite import SqliteJournal
from mooring.testing import make_node, make_pod
from tests.sandbox.apiserver.kit import pod


def with_server(act: Callable[[Cluster], Awaitable[None]], data_dir: Path | None = None) -> None:
    async def run() -> None:
        async with EmbeddedServer(data_dir) as server:
            await act(server.cluster)

    asyncio.run(run())


def test_the_life_of_a_pod() -> None:
    async def act(cluster: Cluster) -> None:
        made = await cluster.create(PODS, pod("p"), "default")
        assert isinstance(made, Pod)
        status = {"status": {"nominatedNodeName": "n2"}}
        patched = await cluster.patch(PODS, "p", status, "default", subresource="status")
        assert patched.status.nominated_node_name == "n2"
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        await cluster.post(PODS, "p", "binding", binding, "default")
        found = await cluster.get(PODS, "p", "default")
        assert (found.spec.node_name, found.status.nominated_node_name) == ("n1", "")
        page = await cluster.list(PODS, field_selector="spec.nodeName=n1")
        assert [one.name for one in page.items] == ["p"]
        await cluster.delete(PODS, "p", "default", uid=made.metadata.uid, grace_period_seconds=0)
        with pytest.raises(ApiError) as caught:
            await cluster.get(PODS, "p", "default")
        assert caught.value.not_found

    with_server(act)


def test_structs_may_be_sent_as_they_are() -> None:
    async def act(cluster: Cluster) -> None:
        node = await cluster.create(NODES, make_node("n"))
        assert isinstance(node, Node)
        assert node.status.allocatable["pods"] == "110"
        made = await cluster.create(PODS, make_pod("p"), "default")
        assert made.spec.containers

    with_server(act)


def test_pages_and_watches() -> None:
    async def act(cluster: Cluster) -> None:
        for number in range(5):
            await cluster.create(PODS, pod(f"p{number}"), "default")
        first = await cluster.list(PODS, limit=3)
        rest = await cluster.list(PODS, limit=3, continue_token=first.continue_token)
        assert [one.name for one in first.items + rest.items] == ["p0", "p1", "p2", "p3", "p4"]
        await cluster.delete(PODS, "p0", "default")
        changes = cluster.watch(PODS, first.resource_version, timeout_seconds=1)
        seen = [(change.type, change.object.name if change.object else "") async for change in changes]
        assert seen[0][1] == "p0"
        assert ("DELETED", "p0") in seen
        assert seen[-1][0] == "BOOKMARK"

    with_server(act)


def test_a_watch_tells_of_a_write_what_its_answer_told() -> None:
    async def act(cluster: Cluster) -> None:
        version = (await cluster.list(PODS)).resource_version
        created = await cluster.create(PODS, pod("p"), "default")
        same = await cluster.patch(PODS, "p", {"metadata": {"labels": None}}, "default")  # changes nothing
        changed = await cluster.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
        for model in (Pod, KubeObject):  # others may read the same pods by another model
            read = ApiResource("", "v1", "pods", True, model)
            seen = [change.object async for change in cluster.watch(read, version, timeout_seconds=1)]
            assert all(type(obj) is model for obj in seen[:2])
            versions = [obj.metadata.resource_version for obj in seen[:2] if obj is not None]
            assert versions == [created.metadata.resource_version, changed.metadata.resource_version]
        assert same == created

    with_server(act)


def test_writers_share_what_they_read_but_not_what_only_one_of_them_sees() -> None:
    async def act(cluster: Cluster) -> None:
        assert isinstance(cluster, EmbeddedCluster)
        other = cluster.for_writer("other")
        version = (await cluster.list(PODS)).resource_version
        created = await cluster.create(PODS, pod("p"), "default")
        status = {"status": {"phase": "Succeeded"}}
        ended = await cluster.patch(PODS, "p", status, "default", subresource="status")
        living = other.watch(PODS, version, field_selector="status.phase!=Succeeded", timeout_seconds=1)
        seen = [(change.type, change.object) async for change in living][:2]
        assert [type for type, _ in seen] == ["ADDED", "DELETED"]
        assert seen[0][1] is created
        last = seen[1][1]
        assert last is not None
        assert last.metadata.resource_version == ended.metadata.resource_version
        assert (last.status.phase, ended.status.phase) == ("Pending", "Succeeded")
        everything = [change.object async for change in other.watch(PODS, version, timeout_seconds=1)]
        assert everything[0] is created
        assert everything[1] is ended

    with_server(act)


def test_what_is_refused() -> None:
    async def act(cluster: Cluster) -> None:
        with pytest.raises(ApiError, match='namespaces "none" not found'):
            await cluster.create(PODS, pod("p"), "none")
        with pytest.raises(ApiError) as caught:
            await cluster.post(EVENTS, "", "", {"metadata": {"name": "e"}, "regarding": 5}, "default")
        assert caught.value.code == 400

    with_server(act)


def test_a_data_directory_outlives_the_server(tmp_path: Path) -> None:
    async def write(cluster: Cluster) -> None:
        await cluster.create(PODS, pod("p"), "default")

    async def read(cluster: Cluster) -> None:
        assert (await cluster.get(PODS, "p", "default")).name == "p"
        page = await cluster.list(PODS, field_selector="status.phase=Pending")
        assert len(page.items) == 1

    with_server(write, tmp_path)
    with_server(read, tmp_path)


def test_a_full_disk_is_an_error_of_the_server(tmp_path: Path) -> None:
    """As over HTTP, so that clients retry."""

    class Full(SqliteJournal):
        def commit(self, version: int) -> None:
            raise sqlite3.OperationalError("database or disk is full")

    async def main() -> None:
        server = EmbeddedServer()
        server.open(Full(tmp_path))
        with pytest.raises(ApiError, match="database or disk is full") as caught:
            await server.cluster.create(PODS, pod("p"), "default")
        assert caught.value.transient
        await server.stop()

    asyncio.run(main())


def test_others_have_their_turn_while_much_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LONGEST_TURN", -1.0)

    async def act(cluster: Cluster) -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.create_task(count())
        for number in range(10):
            await cluster.create(PODS, pod(f"p{number}"), "default")
        counting.cancel()
        assert turns >= 9

    with_server(act)


def test_the_cache_of_objects_is_bounded_by_their_size() -> None:
    recent = port._Recent()
    for number in range(8):
        recent.put(number, number, 10 << 20)
    assert [number for number in range(8) if recent.get(number) is not None] == [4, 5, 6, 7]
