"""Turns of the loop that connections share."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from mooring.serving.shared_turns import SharedTurns
from tests.serving.kit import run


def test_what_takes_long_has_a_turn_of_its_own() -> None:
    async def main() -> None:
        turns, turn, done = SharedTurns(), 0, Counter[int]()

        def work(again: int) -> None:
            done[turn] += 1
            time.sleep(0.01)
            if again:
                turns.add(lambda: work(again - 1))

        for _ in range(3):
            turns.add(lambda: work(2))
        while done.total() < 9:
            await asyncio.sleep(0)
            turn += 1
        assert max(done.values()) == 1

    run(main())


def test_what_fails_does_not_stop_others() -> None:
    async def main() -> None:
        turns, done, failures = SharedTurns(), list[int](), list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        turns.add(lambda: 1 / 0)
        turns.add(lambda: done.append(1))
        while not done:
            await asyncio.sleep(0)
        turns.add(lambda: done.append(2))
        await asyncio.sleep(0.001)
        assert done == [1, 2]
        assert len(failures) == 1

    run(main())
