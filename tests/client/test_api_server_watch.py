"""Watches of the adapter to an API server: changes, refusals, garbage, ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from mooring.api.kinds import EVENTS, NODES, PODS
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.port import Change
from tests.client.api_kit import asked, asking, changes_of, pod, run, status
from tests.client.loopback import Reply, Request


def test_a_watch_tells_of_changes_until_the_server_ends_it() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await reply.event("ADDED", pod("a", "6"))
        await reply.event("MODIFIED", pod("a", "7", nodeName="n1"))
        await reply.event("DELETED", pod("a", "8"))
        await reply.event(
            "BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9", "creationTimestamp": None}}
        )
        await reply.chunk(b"")

    async def main() -> None:
        async with asking(answer, tls=True, token="abc") as (api, server):
            changes = await changes_of(api, namespace="ns", label_selector="a=b", timeout_seconds=300)
        assert [(change.type, change.resource_version) for change in changes] == [
            ("ADDED", "6"),
            ("MODIFIED", "7"),
            ("DELETED", "8"),
            ("BOOKMARK", "9"),
        ]
        assert [change.object and change.object.spec.node_name for change in changes] == ["", "n1", "", ""]
        assert server.requests[0].headers["authorization"] == "Bearer abc"
        assert asked(server.requests[0]) == (
            "GET",
            "/api/v1/namespaces/ns/pods",
            {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": "5",
                "labelSelector": "a=b",
                "timeoutSeconds": "300",
            },
        )

    run(main())


def test_an_object_of_a_watch_that_makes_no_sense_is_told_in_its_place() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await reply.event("ADDED", pod("a", "6", nodeName=7))
        await reply.event("ADDED", 17)
        await reply.event("ADDED", pod("b", "7", nodeName=None))
        await reply.chunk(b"")

    async def main() -> None:
        async with asking(answer) as (api, _):
            first, second, third = await changes_of(api)
        assert (first.object, first.resource_version) == (None, "6")
        assert str(first.malformed) == "Pod default/a: spec.nodeName: found 7, expected a string"
        assert str(second.malformed) == "Pod: object: found 17, expected an object"
        assert third.object is not None
        assert (third.object.key, third.malformed) == ("default/b", None)

    run(main())


@pytest.mark.parametrize(
    "resource", [PODS, NODES, EVENTS]
)  # an Event has no status that a Status would fit into
def test_an_error_in_a_watch_is_the_servers_refusal(resource: Any) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await reply.event("ERROR", status(410, "Expired", "too old resource version: 5 (100)"))
        await asyncio.sleep(20)

    async def main() -> None:
        async with asking(answer) as (api, _):
            with pytest.raises(ApiError) as caught:
                [change async for change in api.watch(resource, "5")]
            assert caught.value.gone
            assert caught.value.reason == "Expired"
            assert caught.value.message == "too old resource version: 5 (100)"
            assert caught.value.request.startswith("GET /api")

    run(main())


def test_a_watch_that_is_refused_tells_why() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.json(
            403, status(403, "Forbidden", 'pods is forbidden: User "x" cannot watch resource "pods"')
        )

    async def main() -> None:
        async with asking(answer) as (api, _):
            with pytest.raises(ApiError, match="pods is forbidden") as caught:
                await changes_of(api)
            assert (caught.value.code, caught.value.reason) == (403, "Forbidden")

    run(main())


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe",
        b"<html></html>",
        b"{}",
        b'{"type": "FOUND", "object": {}}',
        b'{"type": "ADDED"}',
        b'{"type":',
        b'{"type": "ERROR", "object": 7}',
        b'{"type": "ADDED", "object": ' + b"[" * 100_000,
        b'"\xff"',
    ],
)
def test_garbage_in_the_stream_is_told_and_ends_the_watch(garbage: bytes) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await reply.event("ADDED", pod("a", "6"))
        await reply.chunk(garbage + b"\n")
        await asyncio.sleep(20)

    async def main() -> None:
        async with asking(answer) as (api, _):
            watch = api.watch(PODS, "5")
            assert (await anext(watch)).resource_version == "6"
            with pytest.raises(Unreachable, match="invalid response: "):
                await anext(watch)

    run(main())


def test_ending_the_iteration_ends_the_request() -> None:
    closed = asyncio.Event()

    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await reply.event("ADDED", pod("a", "6"))
        try:
            while True:
                await reply.chunk(b"\n")
                await asyncio.sleep(0.01)
        finally:
            closed.set()

    async def main() -> None:
        async with asking(answer) as (api, _):
            watch = cast("AsyncGenerator[Change[Pod], None]", api.watch(PODS, "5"))
            await anext(watch)
            await watch.aclose()
            await closed.wait()
            closed.clear()
            async for _change in api.watch(PODS, "5"):
                break
            gc.collect()
            await closed.wait()

    run(main())


def test_a_watch_that_outlasts_its_time_by_far_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.client.api_server._WATCH_GRACE", -0.9)

    async def answer(request: Request, reply: Reply) -> None:
        await reply.begin_chunks()
        await asyncio.sleep(20)

    async def main() -> None:
        async with asking(answer) as (api, _):
            with pytest.raises(Unreachable, match="timed out while reading the response"):
                await changes_of(api, timeout_seconds=1)

    run(main())
