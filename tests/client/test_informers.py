"""Lists and watches: what an informer delivers, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest

from mooring.api.kinds import NODES, PODS
from mooring.api.objects import Node, Pod
from mooring.client.api_errors import ApiError
from mooring.client.informers import STALL_AFTER, TURN, Informer, Informers
from tests.client import virtual_time
from tests.client.fake_cluster import FakeCluster
from tests.client.informer_kit import MINUTE, Recorded, following_pods, node, pod, running, settled, unseen
from tests.client.virtual_time import now


def test_a_kind_is_listed_in_pages_and_then_watched_from_the_version_of_the_list() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        assert sink.new() == ["+default/a@101", "+default/b@102", "+default/c@103"]
        assert len(cluster.asked("list")) == 2
        assert cluster.asked("watch") == ["pods 103"]
        cluster.put(PODS, pod("d"))
        cluster.put(PODS, pod("a", spec={"nodeName": "n1"}))
        cluster.remove(PODS, "b", "default")
        await settled()
        assert sink.new() == ["+default/d@104", "+default/a@105", "-default/b"]

    following_pods(scenario, page_size=2)


def test_a_list_whose_rest_expired_is_begun_anew_in_one_piece() -> None:
    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        for name in "abcd":
            cluster.put(PODS, pod(name))

        async def compact_once(verb: str, done: bool) -> None:
            if len(cluster.asked("list")) == 2:  # between the first page and the second
                cluster.meddle = None
                cluster.remove(PODS, "a", "default")
                cluster.compact()

        cluster.meddle = compact_once
        informer = Informer(cluster, PODS, sink, page_size=2)
        async with running(informer):
            await informer.synced.wait()
        # a was on the first page, and is gone by the time of the second list
        assert sink.told == [
            "+default/a@101",
            "+default/b@102",
            "+default/c@103",
            "+default/d@104",
            "-default/a",
        ]
        assert [detail.split()[1] for detail in cluster.asked("list")] == ["limit=2", "limit=2", "limit=0"]

    virtual_time.run(main())


def test_a_list_without_an_answer_is_given_up_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()

        async def silence(verb: str, done: bool) -> None:
            cluster.meddle = None
            await asyncio.sleep(10_000)

        cluster.meddle = silence
        informer = Informer(cluster, PODS, sink)
        async with running(informer):
            await informer.synced.wait()
        assert now() < 1000 + STALL_AFTER + 2
        assert "no answer to a list of pods within 90 s" in caplog.text

    virtual_time.run(main())


# ---- watches that end


def test_a_cut_watch_goes_on_where_it_was() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        sink.new()
        cluster.put(PODS, pod("d"))
        await asyncio.sleep(5)
        (watch,) = cluster.watches
        watch.cut()
        cluster.put(PODS, pod("e"))
        watch.items.pop()  # what the server sent into the dead connection never arrived
        await settled()
        cluster.put(PODS, pod("f"))
        await settled()
        assert sink.new() == ["+default/d@104", "+default/e@105", "+default/f@106"]
        assert cluster.asked("watch") == ["pods 103", "pods 104"]
        assert len(cluster.asked("list")) == 1

    following_pods(scenario)


def test_a_watch_that_ends_in_peace_is_taken_up_at_once_and_from_the_last_bookmark() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        sink.new()
        cluster.put(NODES, node("n1"))  # another kind: only bookmarks tell that time went on
        await asyncio.sleep(11 * MINUTE)
        assert cluster.asked("watch")[:2] == ["pods 103", "pods 104"]
        assert cluster.watches
        assert sink.new() == []
        assert len(cluster.asked("list")) == 1

    following_pods(scenario)


def test_watches_last_five_to_ten_minutes() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        await asyncio.sleep(4.9 * MINUTE)
        assert len(cluster.asked("watch")) == 1
        await asyncio.sleep(600 * MINUTE)
        assert 60 <= len(cluster.asked("watch")) <= 122

    following_pods(scenario)


def test_watches_that_end_as_they_begin_are_no_hot_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        def end_all() -> None:
            for watch in cluster.watches:
                watch.end()

        async def end_soon(verb: str, done: bool) -> None:
            asyncio.get_running_loop().call_later(0.01, end_all)

        cluster.meddle = end_soon
        cluster.watches[0].end()
        await asyncio.sleep(10 * MINUTE)
        assert 10 <= len(cluster.asked("watch")) <= 30
        assert caplog.text.count("closes watches of pods as soon as they start") == 1

    following_pods(scenario)


def test_a_silent_watch_is_given_up_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        sink.new()
        await asyncio.sleep(2.5 * MINUTE)  # bookmarks are word enough
        assert len(cluster.asked("watch")) == 1
        cluster.watches[0].stall()
        cluster.put(PODS, pod("d"))
        cut_at = now()
        while not sink.told:
            await asyncio.sleep(1)
        assert now() - cut_at <= STALL_AFTER + 1
        assert sink.new() == ["+default/d@104"]
        assert len(cluster.watches) == 1  # the silent one was closed
        assert "watch of pods silent for 90 s" in caplog.text

    following_pods(scenario)


@pytest.mark.parametrize("failures", [0, 1])
def test_refreshing_delivers_what_a_watch_has_not_shown_yet(failures: int) -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        async def fail(verb: str, done: bool) -> None:
            nonlocal failures
            if verb == "list" and failures:
                failures -= 1
                raise ApiError(503, "ServiceUnavailable", "not now")

        sink.new()
        cluster.stall_watches()
        cluster.put(PODS, pod("d"))
        cluster.remove(PODS, "b", "default")
        cluster.meddle = fail
        await informer.refresh()
        assert sink.new() == ["+default/d@104", "-default/b"]
        cluster.put(PODS, pod("e"))
        await settled()
        assert sink.new() == ["+default/e@106"]
        assert len(cluster.watches) == 1

    following_pods(scenario)


def test_refreshing_while_the_watch_is_new_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        began = now()
        await informer.refresh()
        assert now() - began < 0.1
        assert "closes watches" not in caplog.text

    following_pods(scenario)


def test_a_version_that_is_gone_means_a_new_list_of_which_only_the_difference_is_told() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        sink.new()
        with unseen(cluster):
            cluster.put(PODS, pod("c", spec={"nodeName": "n1"}))
            cluster.remove(PODS, "b", "default")
            cluster.put(PODS, pod("d"))
        await asyncio.sleep(10)
        assert sink.new() == ["+default/c@104", "+default/d@106", "-default/b"]
        cluster.put(PODS, pod("e"))
        await settled()
        assert sink.new() == ["+default/e@108"]

    following_pods(scenario)


def test_an_object_made_anew_under_the_same_name_is_first_deleted() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        sink.new()
        with unseen(cluster):
            cluster.remove(PODS, "b", "default")
            cluster.put(PODS, pod("b"))
        await asyncio.sleep(10)
        assert sink.new() == ["-default/b", "+default/b@105"]
        assert sink.keys == ["default/a", "default/b", "default/c"]

    following_pods(scenario)


def test_pods_that_end_leave_as_if_deleted() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        cluster.put(PODS, pod("b", status={"phase": "Succeeded"}))
        cluster.put(PODS, pod("z", status={"phase": "Failed"}))
        await settled()
        assert sink.keys == ["default/a", "default/c"]

    following_pods(scenario)


# ---- several sinks


def test_a_sink_that_comes_later_is_told_what_is_there_and_then_the_changes() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        other = Recorded()
        await informer.attach(other)
        assert other.new() == sink.new() == ["+default/a@101", "+default/b@102", "+default/c@103"]
        cluster.put(PODS, pod("d"))
        cluster.remove(PODS, "b", "default")
        await settled()
        assert other.new() == sink.new() == ["+default/d@104", "-default/b"]
        informer.detach(other)
        cluster.put(PODS, pod("e"))
        await settled()
        assert (other.new(), sink.new()) == ([], ["+default/e@106"])
        assert len(cluster.asked("list")) == len(cluster.asked("watch")) == 1

    following_pods(scenario)


def test_what_changes_while_a_sink_is_being_told_is_told_as_it_is_then() -> None:
    async def main() -> None:
        cluster, sink, other = FakeCluster(), Recorded(), Recorded()
        for number in range(2 * TURN):
            cluster.put(PODS, pod(f"p{number:04}"))
        informer: Informer[Pod] = Informer(cluster, PODS, sink)
        async with running(informer):
            await informer.synced.wait()
            await settled()
            attaching = asyncio.create_task(informer.attach(other))
            while not other.told:
                await asyncio.sleep(0)
            last = f"p{2 * TURN - 1:04}"
            cluster.remove(PODS, last, "default")
            cluster.put(PODS, pod(f"p{2 * TURN - 2:04}", spec={"nodeName": "n1"}))
            await attaching
            await settled()
        assert other.objects == sink.objects
        assert other.told[-1] != f"+default/{last}"

    virtual_time.run(main())


def test_what_one_sink_refuses_the_others_get() -> None:
    async def scenario(cluster: FakeCluster, sink: Recorded, informer: Informer[Pod]) -> None:
        other = Recorded()
        await informer.attach(other)
        sink.new(), other.new()
        sink.refuse = lambda obj: ValueError("not this one") if obj.name == "d" else None
        cluster.put(PODS, pod("d"))
        cluster.put(PODS, pod("e"))
        await settled()
        assert sink.new() == ["+default/e@105"]
        assert other.new() == ["+default/d@104", "+default/e@105"]

    following_pods(scenario)


# ---- all together


def test_nodes_are_delivered_before_pods() -> None:
    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        for number in range(3):
            cluster.put(PODS, pod(f"p{number}"))
            cluster.put(NODES, node(f"n{number}"))

        async def slow_nodes(verb: str, done: bool) -> None:
            if cluster.requests[-1] == ("list", "nodes limit=500 continue="):
                await asyncio.sleep(3)

        cluster.meddle = slow_nodes
        informers = Informers(cluster, sink, [PODS, NODES])  # type: ignore[list-item]
        async with running(informers):
            await informers.synced.wait()
        assert [line.partition("@")[0] for line in sink.told] == [
            "+n0", "+n1", "+n2", "+default/p0", "+default/p1", "+default/p2",
        ]  # fmt: skip

    virtual_time.run(main())


def test_pods_may_come_from_an_informer_that_others_run() -> None:
    async def main() -> None:
        cluster, own, sink = FakeCluster(), Recorded(), Recorded()
        cluster.put(PODS, pod("p"))
        cluster.put(NODES, node("n"))
        pods: Informer[Pod] = Informer(cluster, PODS, own)
        informers = Informers(cluster, sink, [PODS, NODES], pods=pods)  # type: ignore[list-item]
        async with running(pods):
            async with running(informers):
                await informers.synced.wait()
                cluster.put(PODS, pod("q"))
                await settled()
            assert [line.partition("@")[0] for line in sink.new()] == ["+n", "+default/p", "+default/q"]
            cluster.put(PODS, pod("r"))
            await settled()
        assert sink.new() == []
        assert own.keys == ["default/p", "default/q", "default/r"]
        assert cluster.asked("list") == ["pods limit=500 continue=", "nodes limit=500 continue="]

    virtual_time.run(main())


def test_many_objects_at_once_leave_turns_to_others() -> None:
    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        cluster.put(NODES, node("first"))
        informer: Informer[Node] = Informer(cluster, NODES, sink)
        turns: list[int] = []

        async def other() -> None:
            while True:
                turns.append(len(sink.told))
                await asyncio.sleep(0)

        async with running(informer):
            await informer.synced.wait()
            await settled()
            for number in range(1000):
                cluster.put(NODES, node(f"n{number}"))
            task = asyncio.create_task(other())
            while len(sink.told) < 1001:
                await asyncio.sleep(0)
            task.cancel()
        steps = [after - before for before, after in pairwise(turns)]
        assert max(steps) <= TURN

    virtual_time.run(main())
