"""VirtualTimeLoop: time jumps where everybody waits, and stands still while a thread works."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from mooring.client.virtual_time import START, VirtualTimeLoop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


@given(st.lists(st.integers(1, 10_000_000), max_size=20))
def test_timers_come_in_order_and_at_their_time(delays: list[int]) -> None:
    async def main() -> list[tuple[float, int]]:
        loop, seen = asyncio.get_running_loop(), []

        async def wait(delay: int) -> None:
            await asyncio.sleep(delay / 1000)
            seen.append((loop.time() - START, delay))

        await asyncio.gather(*map(wait, delays))
        return seen

    seen = run(main())
    assert [delay for _, delay in seen] == sorted(delays)
    assert all(abs(at - delay / 1000) < 1e-3 for at, delay in seen)


def test_time_stands_still_while_a_thread_works() -> None:
    async def main() -> float:
        loop, begun = asyncio.get_running_loop(), threading.Event()
        begin = loop.time()

        def work() -> None:
            begun.wait(5)

        working = loop.run_in_executor(None, work)
        loop.call_later(3600, begun.set)  # would come at once, if time did not wait for the thread
        loop.call_soon(begun.set)
        await working
        return loop.time() - begin

    assert run(main()) == 0


def test_closing_the_loop_waits_for_a_thread_that_is_no_longer_awaited() -> None:
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait(0.05)
        ended.set()

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(None, work).cancel()
        started.wait(5)

    run(main())
    assert ended.is_set()


def test_sockets_work_as_ever() -> None:
    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        with here, there:
            here.setblocking(False)
            there.setblocking(False)
            await loop.sock_sendall(here, b"hello")
            return await loop.sock_recv(there, 10)

    assert run(main()) == b"hello"
