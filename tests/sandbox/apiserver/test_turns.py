"""Users take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from mooring.sandbox.apiserver.context.turns import Turns


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await main

    asyncio.run(bounded())


async def hold(turns: Turns, user: str, order: list[str]) -> None:
    async with turns.turn(user):
        order.append(user)
        await asyncio.sleep(0)


def test_a_user_with_many_requests_delays_others_by_one() -> None:
    async def main() -> None:
        turns, order = Turns(1, 1), list[str]()
        users = [*"aaaaaaaa", *"bb", "c"]
        await asyncio.gather(*(hold(turns, user, order) for user in users))
        assert "".join(order) == "aabcabaaaaa"

    run(main())


def test_a_user_has_no_more_than_a_share() -> None:
    async def main() -> None:
        turns, order = Turns(3, 2), list[str]()
        async with turns.turn("a"), turns.turn("a"):
            waiting = asyncio.create_task(hold(turns, "a", order))
            await asyncio.sleep(0)
            await hold(turns, "b", order)
            assert order == ["b"]
        await waiting
        assert order == ["b", "a"]

    run(main())


def test_requests_that_are_given_up_hold_no_place() -> None:
    async def main() -> None:
        turns, order = Turns(1, 1), list[str]()
        async with turns.turn("a"):
            tasks = [asyncio.create_task(hold(turns, "b", order)) for _ in range(3)]
            await asyncio.sleep(0)
            tasks[0].cancel()
        tasks[1].cancel()  # which has just been given a place
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == ["b"]
        async with turns.turn("c"):
            pass

    run(main())
