"""A broken or hostile API server: requests end, nothing is sent to others, and the rest goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mooring.api.kinds import LEASES, PODS
from mooring.client.api_errors import ApiError, ClusterError, Unreachable
from mooring.client.http import connection, lines
from mooring.client.informers import Informer
from mooring.client.leader_election import MOST_TRANSITIONS, LeaderElector
from mooring.client.port import Page
from mooring.process.logs import KlogFormatter
from tests.client import virtual_time
from tests.client.api_kit import asking, changes_of, run
from tests.client.certificates import loopback
from tests.client.fake_cluster import FakeCluster
from tests.client.informer_kit import Recorded, pod, running, settled
from tests.client.loopback import Reply, Request, serving

TOKEN = "secret-7d1f"


def test_no_redirect_is_followed() -> None:
    async def other(request: Request, reply: Reply) -> None:
        await reply.json(200, {})

    async def scenario() -> None:
        async with serving(other) as elsewhere:

            async def redirect(request: Request, reply: Reply) -> None:
                await reply.send(307, Location=f"{elsewhere.url}{request.path}")

            async with asking(redirect, token=TOKEN) as (api, _):
                for request in (
                    api.list(PODS),
                    api.post(PODS, "p", "binding", {}, "default"),
                    changes_of(api),
                ):
                    with pytest.raises(ApiError, match="the server returned 307"):
                        await request
            assert elsewhere.connections == 0

    run(scenario())


@pytest.mark.parametrize(
    ("head", "cause"),
    [
        (b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", "the headers of the answer are longer than"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "the headers of the answer are longer than"),
    ],
)
def test_hints_without_end_are_cut_off(monkeypatch: pytest.MonkeyPatch, head: bytes, cause: str) -> None:
    monkeypatch.setattr(connection, "LARGEST_HEAD", 10_000)

    async def flood(request: Request, reply: Reply) -> None:
        while True:
            await reply.raw(head * 50)
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with asking(flood) as (api, _):
            for request in (api.list(PODS), changes_of(api)):
                with pytest.raises(Unreachable, match=cause):
                    await request

    run(scenario())


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
def test_an_encoding_that_was_not_asked_for_is_no_answer(encoding: str) -> None:
    async def packed(request: Request, reply: Reply) -> None:
        await reply.send(200, b"\x1f\x8b\x08\x00\x1b[31m", Content_Encoding=encoding)

    async def scenario() -> None:
        async with asking(packed) as (api, _):
            with pytest.raises(Unreachable, match="invalid response") as caught:
                await api.list(PODS)
            assert "\x1b" not in str(caught.value)

    run(scenario())


@pytest.mark.parametrize("framed", [True, False])
def test_a_tls_connection_that_ends_within_an_event_is_no_end_of_the_watch(framed: bool) -> None:
    """Without a closing alert, anyone on the way may have ended it."""

    async def cut(request: Request, reply: Reply) -> None:
        head = b"Transfer-Encoding: chunked\r\n" if framed else b""
        await reply.raw(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
        await reply.raw(b'ff\r\n{"type":"ADDED","obj' if framed else b'{"type":"ADDED","obj')
        reply.cut()

    async def scenario() -> None:
        async with asking(cut, tls=True) as (api, _):
            with pytest.raises(Unreachable):
                await changes_of(api)

    assert loopback()
    run(scenario())


def test_a_line_without_end_costs_little_memory() -> None:
    assert lines.LONGEST_LINE <= 16 * 1024**2


def test_a_list_that_goes_on_where_it_was_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Circling(FakeCluster):
        async def list(self, *args: Any, **options: Any) -> Page[Any]:
            page = await super().list(*args, **{**options, "continue_token": ""})
            page.continue_token = "again" if len(self.asked("list")) < 5 else ""
            return page

    async def main() -> None:
        cluster, sink = Circling(), Recorded()
        cluster.put(PODS, pod("a"))
        async with running(Informer(cluster, PODS, sink)) as informer:
            await asyncio.sleep(20)
            assert not informer.done()
            assert sink.keys == ["default/a"]
            assert len(cluster.asked("list")) == 5
        assert caplog.text.count("a list of pods that goes on where it was") == 1

    virtual_time.run(main())


def test_an_object_without_a_name_is_reported_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        async with running(Informer(cluster, PODS, sink)):
            await settled()
            cluster.put(PODS, pod(""))
            cluster.put(PODS, pod("a"))
            await settled()
            assert sink.keys == ["default/a"]
        assert caplog.text.count("metadata.name: not set; skipped") == 1

    virtual_time.run(main())


def test_messages_add_no_entries_to_the_log() -> None:
    record = logging.LogRecord(
        "mooring", logging.WARNING, "a.py", 1, "%s", ("x\nE1119 00:00 forged\x1b[2J",), None
    )
    first, second = KlogFormatter().format(record).splitlines()
    assert first.endswith("a.py:1] x")
    assert second == "  E1119 00:00 forged\\x1b[2J"


@pytest.mark.parametrize("number", [-5, 2**31 - 1])
def test_a_lease_with_absurd_values_can_be_taken(number: int) -> None:

    async def main() -> None:
        cluster = FakeCluster()
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": number,
            "leaseTransitions": number,
            "renewTime": "9999-12-31T23:59:59.999999Z",
            "acquireTime": "0001-01-01T00:00:00.000000Z",
        }
        meta = {"name": "kube-scheduler", "namespace": "kube-system"}
        cluster.put(LEASES, {"metadata": meta, "spec": spec})
        elector = LeaderElector(cluster, "one", clock=virtual_time.now, wall_clock=lambda: 1_900_000_000.0)

        async def lead() -> None:
            await asyncio.sleep(10)

        await elector.run(lead)
        written = cluster.objects[LEASES.name, "kube-system", "kube-scheduler"]["spec"]
        assert abs(written["leaseTransitions"]) <= MOST_TRANSITIONS

    virtual_time.run(main())


def test_requests_fail_and_nothing_else_where_answers_are_garbage() -> None:
    answers = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 4\r\n\r\n{}{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/9.9 999 \xff\xfe\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ]

    async def garbage(request: Request, reply: Reply) -> None:
        await reply.raw(answers[int(request.path.rpartition("=")[2]) % len(answers)])
        reply.cut()

    async def scenario() -> None:
        async with asking(garbage, token=TOKEN) as (api, _):
            for number in range(len(answers)):
                with pytest.raises(ClusterError):
                    await api.list(PODS, limit=number or len(answers))

    run(scenario())
