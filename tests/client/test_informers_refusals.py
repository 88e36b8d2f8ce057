"""Informers where the server refuses, or objects make no sense."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest

from mooring.api.errors import MalformedObject
from mooring.api.kinds import NODES, PERSISTENT_VOLUMES, PODS, WATCHED, WORKLOADS, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.informers import Informer, Informers
from mooring.client.port import Page
from tests.client import virtual_time
from tests.client.fake_cluster import FakeCluster
from tests.client.informer_kit import MINUTE, Recorded, following_pods, node, pod, running, settled, unseen
from tests.client.virtual_time import now


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_missing_permission_is_told_once_by_verb_and_resource(
    verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        cluster.refusals[verb, "persistentvolumes"] = ApiError(403, "Forbidden", "User cannot do that")
        cluster.put(PERSISTENT_VOLUMES, node("pv"))
        informer = Informer(cluster, PERSISTENT_VOLUMES, sink)
        async with running(informer):
            await asyncio.sleep(20 * MINUTE)
            assert len(cluster.asked(verb)) > 20
            assert informer.synced.is_set() == (verb == "watch")
            cluster.refusals.clear()
            await asyncio.sleep(MINUTE)
            cluster.put(PERSISTENT_VOLUMES, node("pw"))
            await settled()
            assert sink.keys == ["pv", "pw"]
            assert sink.told == ["+pv@101", "+pw@102"]
        (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert f"not allowed to {verb} persistentvolumes: User cannot do that" in line
        assert f'grant the user or ServiceAccount the verb "{verb}" on "persistentvolumes"' in line

    virtual_time.run(main())


def test_tries_become_rarer_while_the_server_is_out_of_reach() -> None:
    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        cluster.put(PODS, pod("a"))
        times: list[float] = []

        async def refuse(verb: str, done: bool) -> None:
            times.append(now())
            raise Unreachable("https://10.0.0.1", "connection refused")

        cluster.meddle = refuse
        informer = Informer(cluster, PODS, sink)
        async with running(informer):
            await asyncio.sleep(10 * MINUTE)
            waits = [after - before for before, after in pairwise(times)]
            for base, wait in zip((0.8, 1.6, 3.2, 6.4, 12.8, 25.6), waits, strict=False):
                assert base <= wait <= 2 * base
            assert all(30 <= wait <= 60 for wait in waits[6:])
            assert len(waits) > 12
            cluster.meddle = None
            await informer.synced.wait()
            assert sink.keys == ["default/a"]

    virtual_time.run(main())


def test_a_server_says_how_long_to_stay_away_within_reason() -> None:
    async def main() -> None:
        cluster = FakeCluster()
        informer = Informer(cluster, PODS, Recorded())
        cluster.refusals["list", "pods"] = ApiError(429, "TooManyRequests", "slow down", retry_after=20)
        async with running(informer):
            await asyncio.sleep(19)
            assert len(cluster.asked("list")) == 1
            await asyncio.sleep(2)
            assert len(cluster.asked("list")) == 2
            cluster.refusals["list", "pods"] = ApiError(503, "Unavailable", "later", retry_after=86_400)
            await asyncio.sleep(20)
            cluster.refusals.clear()
            await asyncio.sleep(61)
            assert informer.synced.is_set()

    virtual_time.run(main())


def test_what_comes_back_is_told_again_even_of_kinds_that_never_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        cluster = FakeCluster()
        informers = Informers(cluster, Recorded())
        async with running(informers):
            await informers.synced.wait()
            for outage in (1, 2):
                cluster.go_down()
                await asyncio.sleep(2 * MINUTE)
                assert caplog.text.count("connection refused") == outage
                cluster.down = None
                for _ in range(10):  # nothing happens, not even bookmarks are sent
                    await asyncio.sleep(20)
                    for watch in cluster.watches:
                        watch.stall()

    virtual_time.run(main())


def test_what_concerns_the_whole_server_is_told_once_for_all_kinds(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cluster = FakeCluster()

        async def refuse(verb: str, done: bool) -> None:
            raise ApiError(401, "Unauthorized", "Unauthorized")

        cluster.meddle = refuse
        informers = Informers(cluster, Recorded())
        async with running(informers):
            await asyncio.sleep(5 * MINUTE)
            assert set(informers.not_synced()) == {resource.name for resource in WATCHED}
            cluster.meddle = None
            await informers.synced.wait()
            assert informers.not_synced() == []
        warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        assert len(warnings) == 1
        assert "rejected the credentials (Unauthorized)" in warnings[0]

    virtual_time.run(main())


def test_a_kind_that_the_server_does_not_have_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        cluster.put(NODES, node("n1"))
        cluster.refusals["list", "csinodes"] = ApiError(404, "NotFound", "404 page not found")
        informers = Informers(cluster, sink)
        async with running(informers):
            await asyncio.sleep(MINUTE)
            assert informers.not_synced() == ["csinodes.storage.k8s.io"]
            assert not informers.synced.is_set()
            assert sink.keys == ["n1"]
            assert caplog.text.count("does not serve csinodes of storage.k8s.io/v1") == 1

    virtual_time.run(main())


def test_a_custom_kind_may_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    widgets = ApiResource("example.com", "v1", "widgets", True, KubeObject)
    missing = ApiError(404, "NotFound", "404 page not found")

    async def main() -> None:
        caplog.set_level(logging.INFO)
        cluster, sink = FakeCluster(), Recorded()
        cluster.refusals["list", "widgets"] = missing
        informers = Informers(cluster, sink, custom=[widgets])
        async with running(informers):
            await asyncio.sleep(MINUTE)
            assert informers.synced.is_set()
            assert caplog.text.count("widgets.example.com are not served") == 1
            del cluster.refusals["list", "widgets"]
            cluster.put(widgets, pod("w1"))
            await asyncio.sleep(10)  # its definition exists by now
            assert sink.keys == ["default/w1"]
            cluster.refusals["list", "widgets"] = cluster.refusals["watch", "widgets"] = missing
            for watch in cluster.watches:
                watch.end()
            await asyncio.sleep(MINUTE)  # a watch that ends at once is a reason to wait, too
            assert sink.keys == []

    virtual_time.run(main())


def test_a_kind_that_may_not_be_listed_is_empty_if_it_is_dispensable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    workloads: ApiResource[Any] = WORKLOADS

    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        cluster.refusals["list", "workloads"] = ApiError(403, "Forbidden", "User cannot do that")
        cluster.put(workloads, pod("w1"))
        informers = Informers(cluster, sink, custom=[workloads])
        async with running(informers):
            await asyncio.sleep(MINUTE)
            assert informers.synced.is_set()
            assert caplog.text.count("not allowed to list workloads.scheduling.k8s.io") == 1
            cluster.refusals.clear()
            await asyncio.sleep(10)
            assert sink.keys == ["default/w1"]

    virtual_time.run(main())


def test_a_list_without_a_version_is_no_list(caplog: pytest.LogCaptureFixture) -> None:
    class Careless(FakeCluster):
        async def list(self, *args: Any, **options: Any) -> Page[Any]:
            page = await super().list(*args, **options)
            page.resource_version = "" if len(self.asked("list")) < 3 else page.resource_version
            return page

    async def main() -> None:
        cluster, sink = Careless(), Recorded()
        cluster.put(PODS, pod("a"))
        informer = Informer(cluster, PODS, sink)
        async with running(informer):
            await informer.synced.wait()
            assert len(cluster.asked("list")) == 3
            assert sink.told == ["+default/a@101"]
        assert caplog.text.count("a list of pods without metadata.resourceVersion") == 1

    virtual_time.run(main())


# ---- objects that make no sense


def test_objects_that_make_no_sense_are_told_once_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        sink.new()
        cluster.put(PODS, pod("d", spec={"priority": "high"}))
        cluster.put(PODS, pod("d", spec={"priority": "high"}, more=1))
        cluster.put(PODS, pod("e"))
        await settled()
        assert sink.new() == ["+default/e@106"]
        assert caplog.text.count("Pod default/d: spec.priority") == 1
        with unseen(cluster):
            pass
        await asyncio.sleep(10)  # and again, by a list
        assert sink.new() == []
        assert caplog.text.count("Pod default/d: spec.priority") == 1
        cluster.put(PODS, pod("d", spec={"priority": 5}))
        await settled()
        assert sink.new() == ["+default/d@108"]

    following_pods(scenario)


def test_the_last_good_version_of_an_object_stays_in_force_until_it_is_deleted() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        sink.new()
        cluster.put(PODS, pod("b", spec={"priority": "high"}))
        await settled()
        with unseen(cluster):
            pass
        await asyncio.sleep(10)
        assert sink.new() == []
        assert "default/b" in sink.keys
        cluster.remove(PODS, "b", "default")  # the watch brings the state that makes no sense
        await settled()
        assert sink.new() == ["-default/b"]

    following_pods(scenario)


def test_what_the_sink_refuses_is_told_once_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        sink.new()

        def refuse(obj: KubeObject) -> Exception | None:
            if obj.name == "d":
                return MalformedObject("Pod", obj.key, "spec.x", "?", "a quantity")
            return KeyError("bug") if obj.name == "e" else None

        sink.refuse = refuse
        for name in "deedf":
            cluster.put(PODS, pod(name, labels=str(cluster.revision)))
        await settled()
        assert sink.new() == ["+default/f@108"]
        assert caplog.text.count('spec.x: found "?", expected a quantity') == 1
        assert caplog.text.count("applying Pod default/e") == 1
        assert "KeyError" in caplog.text
        sink.refuse = lambda obj: None
        cluster.put(PODS, pod("e"))
        await settled()
        assert sink.new() == ["+default/e@109"]

    following_pods(scenario)
