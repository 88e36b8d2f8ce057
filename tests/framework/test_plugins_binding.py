"""The binding cycle: pre_bind, bind and post_bind, as plain functions and as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from mooring.core.effects import Bind
from mooring.framework import Plugin, Status, error, pending, skip, unresolvable, unschedulable, wait
from mooring.testing import Cluster, make_pod
from tests.framework.kit import only, probe, raising

FAILURES = [unschedulable("no"), unresolvable("no"), pending("no"), error("no"), wait(5, "no")]


def coroutine(calls: list[str], word: str, answer: Status | None = None) -> Any:
    async def call(state: Any, pod: Any, node_name: str) -> Status | None:
        calls.append(f"{word} {pod.key} {node_name}")
        return answer

    return call


def run(*plugins: type[Plugin]) -> Cluster:
    cluster = only(*plugins, nodes=("a",))
    cluster.apply(make_pod())
    cluster.schedule()
    return cluster


def failure(cluster: Cluster) -> str:
    """What the pod's condition says of the failed binding."""
    return cluster.pod("pod").status.conditions[0].message


def test_plain_functions_and_coroutines_alike() -> None:
    calls: list[str] = []
    a = probe("A", calls, pre_bind=None, post_bind=None)
    b = probe("B", pre_bind=coroutine(calls, "pre"), post_bind=coroutine(calls, "post"))
    cluster = run(a, b)
    assert cluster.node_of("pod") == "a"
    assert calls == ["A.pre_bind", "pre default/pod a", "A.post_bind", "post default/pod a"]


@pytest.mark.parametrize("status", [*FAILURES, skip()])
def test_a_failed_pre_bind_undoes_the_placement(status: Status) -> None:
    calls: list[str] = []
    cluster = run(
        probe("A", calls, reserve=None, unreserve=None, pre_bind=status),
        probe("B", calls, unreserve=None, pre_bind=None, bind=None, post_bind=None),
    )
    assert calls == ["A.reserve", "A.pre_bind", "B.unreserve", "A.unreserve"]
    assert failure(cluster).startswith('running PreBind plugin "A": ')
    assert cluster.node_of("pod") == ""
    assert list(cluster.scheduler.cluster.pods()) == []


@pytest.mark.parametrize("answer", [raising, error("no"), coroutine([], "", error("no"))])
def test_the_pod_is_tried_again_after_an_error_backoff(answer: Any) -> None:
    answers = [answer, None]
    cluster = run(probe("A", pre_bind=lambda *args: _given(answers.pop(0), *args)))
    assert cluster.schedule() == []  # not at once, even with nothing else to do
    cluster.advance(3)
    assert cluster.node_of("pod") == "a"
    assert cluster.decision("pod").attempts == 2


def _given(answer: Any, *args: Any) -> Any:
    return answer(*args) if callable(answer) else answer


class TestBind:
    def test_the_first_that_does_not_skip_binds(self) -> None:
        calls: list[str] = []
        cluster = run(
            probe("A", calls, bind=skip()),
            probe("B", bind=coroutine(calls, "asks", skip())),
            probe("C", calls, bind=None),
            probe("D", calls, bind=None),
        )
        assert calls == ["A.bind", "asks default/pod a", "C.bind"]
        assert [event.reason for event in cluster.events()] == ["Scheduled"]

    def test_skip_leaves_it_to_the_default_binder(self) -> None:
        assert run(probe("A", bind=skip())).node_of("pod") == "a"

    def test_a_binder_can_bind_through_the_client(self) -> None:
        class Binder(Plugin):
            name = "Binder"

            async def bind(self, state: Any, pod: Any, node_name: str) -> None:
                assert self.handle.client is not None
                await self.handle.client.bind(pod, node_name)

        assert run(Binder).node_of("pod") == "a"

    @pytest.mark.parametrize("status", FAILURES)
    def test_a_failure_is_final_for_the_attempt(self, status: Status) -> None:
        calls: list[str] = []
        cluster = run(probe("A", calls, bind=status, unreserve=None, post_bind=None), probe("B", bind=None))
        assert calls == ["A.bind", "A.unreserve"]
        assert failure(cluster) == 'running Bind plugin "A": no'
        assert list(cluster.scheduler.cluster.pods()) == []

    def test_somebody_has_to_bind(self) -> None:
        from mooring.testing import config_with, make_cluster, make_node

        a = probe("A", bind=skip())
        config = config_with([a], defaults=False)
        config["profiles"][0]["plugins"]["bind"] = {"disabled": [{"name": "*"}], "enabled": [{"name": "A"}]}
        cluster = make_cluster([make_node("a")], plugins=[a], config=config)
        cluster.apply(make_pod())
        cluster.schedule()
        assert "all of them skipped it" in failure(cluster)
        assert list(cluster.scheduler.cluster.pods()) == []

    def test_a_bind_that_fails_for_another_plugins_sake_is_retried(self) -> None:
        failing = [True]
        cluster = run(probe("A", bind=lambda *args: error("API server away") if failing else skip()))
        assert cluster.node_of("pod") == ""
        failing.clear()
        cluster.advance(3)
        assert cluster.node_of("pod") == "a"


class TestPostBind:
    def test_it_comes_after_the_binding(self) -> None:
        seen: list[str] = []
        clusters: list[Cluster] = []

        def note(state: Any, pod: Any, node_name: str) -> None:
            seen.append(clusters[0].node_of("pod"))

        clusters.append(only(probe("A", post_bind=note), nodes=("a",)))
        clusters[0].apply(make_pod())
        clusters[0].schedule()
        assert seen == ["a"]

    @pytest.mark.parametrize("answer", [raising, error("no"), 42])
    def test_whatever_it_does_the_pod_is_bound_and_others_are_called(self, answer: Any) -> None:
        calls: list[str] = []
        cluster = run(probe("A", post_bind=answer, unreserve=raising), probe("B", calls, post_bind=None))
        assert cluster.node_of("pod") == "a"
        assert calls == ["B.post_bind"]


class _Pause:
    """Something to wait for: suspends the coroutine once, as I/O would."""

    def __await__(self) -> Generator[None]:
        yield


class TestOnAnEventLoop:
    """A driver with an event loop runs many binding cycles at once; here it is asyncio."""

    def test_cycles_that_wait_do_not_hold_each_other_up(self) -> None:
        order: list[str] = []

        async def slow(state: Any, pod: Any, node_name: str) -> None:
            order.append(f"{pod.name} begins")
            await asyncio.sleep(0)
            await _Pause()
            order.append(f"{pod.name} ends")

        cluster = only(probe("A", pre_bind=slow), nodes=("a",))
        scheduler = cluster.scheduler
        cluster.apply(make_pod("one"), make_pod("two"))
        while scheduler.schedule_one() is not None:
            pass
        cycles = [effect.cycle for effect in scheduler.take_effects() if isinstance(effect, Bind)]

        async def drive() -> None:
            statuses = await asyncio.gather(*(cycle.run() for cycle in cycles))
            for cycle, status in zip(cycles, statuses, strict=True):
                assert status.ok
                scheduler.bindings.finished(cycle, status)

        asyncio.run(drive())
        assert order == ["one begins", "two begins", "one ends", "two ends"]
        assert {pod.spec.node_name for pod in cluster.pods()} == {"a"}

    def test_what_a_coroutine_raises_after_waiting_is_the_plugins_error(self) -> None:
        async def fails(state: Any, pod: Any, node_name: str) -> None:
            await asyncio.sleep(0)
            raise ConnectionError("gone away")

        cluster = only(probe("A", pre_bind=fails), nodes=("a",))
        cluster.apply(make_pod())
        cluster.scheduler.schedule_one()
        (effect,) = cluster.scheduler.take_effects()
        assert isinstance(effect, Bind)
        status = asyncio.run(effect.cycle.run())
        assert status.message == 'running PreBind plugin "A": ConnectionError: gone away'
