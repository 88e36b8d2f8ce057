"""The core in a thread of its own: one at a time, and what happens meanwhile comes after, in order."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from mooring.api.errors import ObjectError
from mooring.process.aside import Aside, at_rest


class Work:
    """Something that goes on in the thread until it is let go."""

    def __init__(self, name: str, order: list[str]) -> None:
        self._name = name
        self._order = order
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.let_go.wait(10)
        self._order.append(self._name)
        return self._name

    async def under_way(self) -> None:
        while not self.begun.is_set():
            await asyncio.sleep(0.001)


def run(story: Callable[[Aside, list[str]], object]) -> list[str]:
    order: list[str] = []

    async def told() -> None:
        aside = Aside()
        try:
            await story(aside, order)  # type: ignore[misc]
        finally:
            aside.close()

    asyncio.run(told())
    return order


def test_what_happens_meanwhile_comes_after_in_order() -> None:
    async def story(aside: Aside, order: list[str]) -> None:
        aside.do(lambda: order.append("before"))
        work = Work("attempt", order)
        attempt = asyncio.create_task(aside.run(work))
        await work.under_way()
        for n in range(3):
            aside.do(lambda n=n: order.append(f"change {n}"))  # type: ignore[misc]
        assert order == ["before"]
        work.let_go.set()
        assert await attempt == "attempt"
        await aside.run(lambda: order.append("next"))

    assert run(story) == ["before", "attempt", "change 0", "change 1", "change 2", "next"]


def test_questions_take_turns() -> None:
    async def story(aside: Aside, order: list[str]) -> None:
        works = [Work(str(n), order) for n in range(3)]
        tasks = [asyncio.create_task(aside.run(work)) for work in works]
        await works[0].under_way()
        aside.do(lambda: order.append("change"))
        for work in works:
            work.let_go.set()
        await asyncio.gather(*tasks)

    assert run(story) == ["0", "change", "1", "2"]


def test_who_is_cancelled_does_not_let_others_in_early() -> None:
    async def story(aside: Aside, order: list[str]) -> None:
        first, waiting, last = (Work(name, order) for name in ("first", "waiting", "last"))
        attempt = asyncio.create_task(aside.run(first))
        await first.under_way()
        given_up = asyncio.create_task(aside.run(waiting))
        later = asyncio.create_task(aside.run(last))
        await asyncio.sleep(0)
        attempt.cancel()
        given_up.cancel()
        await asyncio.wait([attempt, given_up])
        aside.do(lambda: order.append("change"))
        assert order == []  # the first is still at it
        last.let_go.set()
        first.let_go.set()
        await later

    assert run(story) == ["first", "change", "last"]


def test_a_change_may_take_long_too(caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []

    def fail(text: str) -> None:
        raise ObjectError("Node", "n", text)

    async def story() -> None:
        aside = Aside(0.005)
        with pytest.raises(ObjectError):  # the caller's own where it is made at once
            aside.do(partial(fail, "cpu"), may_take_long=True)
        work = Work("change", order)
        aside.do(work, may_take_long=True)  # type: ignore[arg-type]
        aside.do(lambda: order.append("after it"))
        aside.do(partial(fail, "memory"))
        assert aside.busy
        work.let_go.set()
        await aside.rest()
        slow = Work("slow failure", order)
        aside.do(lambda: fail(f"pods of {slow()}"), may_take_long=True)
        slow.let_go.set()
        await aside.rest()
        aside.close()

    asyncio.run(story())
    assert order == ["change", "after it", "slow failure"]
    assert [r.getMessage().partition(": ")[2] for r in caplog.records] == [
        "memory; skipped",
        "pods of slow failure; skipped",
    ]


@pytest.mark.parametrize("patience", [0.0, 0.005])
def test_changes_of_every_moment_are_applied_in_order(patience: float) -> None:
    """Also those between the end of one work and the start of the next, which has been waiting meanwhile."""
    order: list[int] = []
    changes = 0

    async def change(aside: Aside, callers: list[asyncio.Task[None]]) -> None:
        nonlocal changes
        while not all(caller.done() for caller in callers):
            aside.do(partial(order.append, changes))
            changes += 1
            await asyncio.sleep(0)

    async def story() -> None:
        aside = Aside(patience)
        callers = [
            asyncio.create_task(aside.run(partial(time.sleep, seconds))) for seconds in (0.02, 0, 0.02, 0)
        ]
        async with asyncio.timeout(10):  # callers must not wait for an end of the changes
            await change(aside, callers)
            while aside.busy:
                await asyncio.sleep(0.001)
        aside.close()

    asyncio.run(story())
    assert order == list(range(changes))


def test_an_exception_is_the_askers_and_a_bad_object_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def story(aside: Aside, order: list[str]) -> None:
        work = Work("attempt", order)
        attempt = asyncio.create_task(aside.run(work))
        await work.under_way()

        def bad() -> None:
            raise ObjectError("Pod", "default/web", "makes no sense")

        aside.do(bad)
        aside.do(lambda: order.append("good"))
        work.let_go.set()
        await attempt

        def failing() -> None:
            raise LookupError("no")

        with pytest.raises(LookupError):
            await aside.run(failing)

    assert run(story) == ["attempt", "good"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "makes no sense; skipped" in caplog.text


def test_a_coroutine_takes_steps_only_while_the_core_is_at_rest() -> None:
    async def story(aside: Aside, order: list[str]) -> None:
        async def binding() -> str:
            try:
                for n in range(3):
                    await asyncio.sleep(0)
                    order.append(f"step {n}{' of a busy core' if aside.busy else ''}")
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                order.append(f"end{' of a busy core' if aside.busy else ''}")
            return "bound"

        work = Work("attempt", order)
        attempt = asyncio.create_task(aside.run(work))
        await work.under_way()

        async def gated() -> str:
            return await at_rest(binding(), aside)

        cycle = asyncio.create_task(gated())
        for _ in range(20):
            await asyncio.sleep(0)
        assert order == []
        work.let_go.set()
        await attempt
        while len(order) < 4:
            await asyncio.sleep(0)
        again = Work("next", order)
        following = asyncio.create_task(aside.run(again))
        await again.under_way()
        cycle.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        again.let_go.set()
        await following
        assert await cycle == "bound"

    assert run(story) == ["attempt", "step 0", "step 1", "step 2", "next", "end"]


def test_a_core_that_is_closed_keeps_no_coroutine_waiting() -> None:
    async def story(aside: Aside, order: list[str]) -> None:
        async def binding() -> None:
            order.append("step")

        async def gated() -> None:
            await at_rest(binding(), aside)

        work = Work("attempt", order)
        attempt = asyncio.create_task(aside.run(work))
        await work.under_way()
        cycle = asyncio.create_task(gated())
        await asyncio.sleep(0)
        aside.close()
        await cycle
        work.let_go.set()
        await attempt

    assert run(story) == ["step", "attempt"]
