"""Binding a pod where answers are lost, late or refused: never twice, and never given up once bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from mooring.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.workloads import Namespace
from mooring.client.api_errors import ApiError, Unreachable
from mooring.framework.pod import PodInfo, Shapes
from mooring.process.client import PATIENCE, LiveClient, NotLeadingError
from tests.client import virtual_time
from tests.process.driven import Server, pod

Scenario = Callable[[Server, LiveClient, PodInfo], Awaitable[None]]


def with_a_pod(scenario: Scenario, *, may_bind: Callable[[], bool] = lambda: True) -> None:
    async def main() -> None:
        server = Server()
        info = await added(server, "p")
        server.requests.clear()
        await scenario(server, LiveClient(server, may_bind), info)

    virtual_time.run(main())


async def added(server: Server, name: str) -> PodInfo:
    server.put(PODS, pod(name))
    found: Pod = msgspec.convert(server.pod(name), Pod)
    return PodInfo.of(found, Shapes().of(found))


class TestBinding:
    def test_one_request_where_all_goes_well(self) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            await client.bind(info, "n0")
            assert server.bound == [("p", "n0")]
            assert server.requests == [("post", "default/p/binding")]

        with_a_pod(scenario)

    def test_an_answer_that_is_lost_is_looked_up(self) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.cut("post", sent=True)
            await client.bind(info, "n0")
            assert server.bound == [("p", "n0")]
            assert [verb for verb, _ in server.requests] == ["post", "get"]

        with_a_pod(scenario)

    def test_a_request_that_is_lost_is_sent_again(self) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.cut("post", sent=False)
            await client.bind(info, "n0")
            assert server.bound == [("p", "n0")]
            assert [verb for verb, _ in server.requests] == ["post", "get", "post"]

        with_a_pod(scenario)

    def test_a_server_that_is_away_for_a_while(self) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.cut("post", 3, sent=False)
            server.cut("get", 12, sent=False)
            began = virtual_time.now()
            await client.bind(info, "n0")
            assert server.bound == [("p", "n0")]
            assert virtual_time.now() - began < PATIENCE

        with_a_pod(scenario)

    def test_a_server_that_stays_away_is_given_up(self) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.cut("post", 1000, sent=False)
            server.cut("get", 1000, sent=False)
            began = virtual_time.now()
            with pytest.raises(Unreachable, match="connection refused"):
                await client.bind(info, "n0")
            assert PATIENCE <= virtual_time.now() - began < PATIENCE + 2
            assert server.bound == []

        with_a_pod(scenario)

    def test_the_first_try_arrives_after_it_was_looked_for(self) -> None:
        """The answer is lost while the request still waits in the server: the second one is refused because
        the first took effect in between, and that is a success."""

        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.cut("post", sent=False)
            binding = asyncio.create_task(client.bind(info, "n0"))
            await asyncio.sleep(0.001)
            held = server.hold("post")
            await asyncio.sleep(1)
            assert [verb for verb, _ in server.requests] == ["post", "get", "post"]
            server.bind("p", "n0")
            held.set()
            await binding
            assert server.bound == [("p", "n0")]
            assert [verb for verb, _ in server.requests] == ["post", "get", "post", "get"]

        with_a_pod(scenario)

    def test_a_conflict_with_ourselves_at_the_first_try(self) -> None:
        """As when the bindings of an earlier life of this process were on their way when it ended."""

        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.bind("p", "n0")
            await client.bind(info, "n0")
            assert server.bound == [("p", "n0")]

        with_a_pod(scenario)

    @pytest.mark.parametrize("lost", [False, True])
    def test_bound_by_another(self, lost: bool) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.bind("p", "elsewhere")
            if lost:
                server.cut("post", sent=False)
            with pytest.raises(ApiError, match='already assigned to node "elsewhere"') as refusal:
                await client.bind(info, "n0")
            assert refusal.value.conflict
            assert server.bound == [("p", "elsewhere")]

        with_a_pod(scenario)

    @pytest.mark.parametrize("lost", [False, True])
    def test_another_pod_by_the_same_name(self, lost: bool) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.remove(PODS, "p", "default")
            server.put(PODS, pod("p"))
            if lost:
                server.cut("post", sent=False)
            with pytest.raises(ApiError) as refusal:
                await client.bind(info, "n0")
            assert refusal.value.conflict or refusal.value.not_found
            assert server.bound == []

        with_a_pod(scenario)

    def test_a_refusal_is_final(self) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.refusals["post", "pods"] = ApiError(403, "Forbidden", "not on a Monday")
            with pytest.raises(ApiError, match="not on a Monday"):
                await client.bind(info, "n0")
            assert len(server.requests) == 1

        with_a_pod(scenario)

    def test_but_not_that_of_a_server_that_has_just_started(self) -> None:
        """It does not know yet what anybody is allowed."""

        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.cut("post", sent=False)
            server.refusals["get", "pods"] = ApiError(403, "Forbidden", "who are you?")
            binding = asyncio.create_task(client.bind(info, "n0"))
            await asyncio.sleep(5)
            server.refusals = {("post", "pods"): ApiError(403, "Forbidden", "who are you?")}
            await asyncio.sleep(5)
            other = asyncio.create_task(client.bind(await added(server, "q"), "n0"))
            await asyncio.sleep(5)
            server.refusals.clear()
            await asyncio.gather(binding, other)
            assert sorted(server.bound) == [("p", "n0"), ("q", "n0")]

        with_a_pod(scenario)

    def test_nothing_is_sent_once_another_may_lead(self) -> None:
        leads = True

        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            nonlocal leads
            server.cut("post", sent=False)
            binding = asyncio.create_task(client.bind(info, "n0"))
            await asyncio.sleep(0.001)
            leads = False
            with pytest.raises(NotLeadingError):
                await binding
            assert server.asked("post") == ["default/p/binding"]
            assert server.bound == []

        with_a_pod(scenario, may_bind=lambda: leads)


class TestWaiting:
    def test_until_it_is_so(self) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            there = asyncio.Event()
            waiting = asyncio.create_task(client.wait_until(there.is_set, 600))
            await asyncio.sleep(400)
            assert client.waiting == 1
            there.set()
            assert await waiting
            assert client.waiting == 0

        with_a_pod(scenario)

    def test_for_so_long(self) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            began = virtual_time.now()
            assert not await client.wait_until(lambda: False, 10.25)
            assert virtual_time.now() - began == pytest.approx(10.25)
            assert client.waiting == 0

        with_a_pod(scenario)


class TestWrites:
    def test_patches_and_deletes_go_to_where_the_kind_is_served(self) -> None:
        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            server.put(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "c", "namespace": "default"}})
            claim: PersistentVolumeClaim = await server.get(PERSISTENT_VOLUME_CLAIMS, "c", "default")
            await client.patch(claim, {"metadata": {"annotations": {"a": "b"}}})
            claim = await server.get(PERSISTENT_VOLUME_CLAIMS, "c", "default")
            assert claim.metadata.annotations == {"a": "b"}
            await client.delete(claim)
            with pytest.raises(ApiError) as refusal:
                await server.get(PERSISTENT_VOLUME_CLAIMS, "c", "default")
            assert refusal.value.not_found

        with_a_pod(scenario)

    def test_a_kind_that_is_not_known(self) -> None:
        class Widget(Namespace):
            pass

        async def scenario(server: Server, client: LiveClient, info: PodInfo) -> None:
            with pytest.raises(TypeError, match="Widget: unknown kind"):
                await client.patch(Widget(), {})

        with_a_pod(scenario)
