"""Programs of containers that are evaluated for clients: one after another, however many ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from mooring.sandbox.apiserver.context.turns import Turns

T = TypeVar("T")


class Evaluations:
    """Evaluates one program at a time on the event loop, for at most half of the time. Users whose clients
    wait get their turn."""

    def __init__(self) -> None:
        self._turns = Turns(1, 1)

    async def run(self, user: str, act: Callable[[], T]) -> T:
        """Return what an evaluation returns, or raise what it raises."""
        loop = asyncio.get_running_loop()
        async with self._turns.turn(user):
            began = loop.time()
            try:
                return act()
            finally:
                await asyncio.sleep(loop.time() - began)


class Evaluator(NamedTuple):
    """Evaluates programs for one user."""

    evaluations: Evaluations
    user: str

    async def run(self, act: Callable[[], T]) -> T:
        """Return what an evaluation returns, or raise what it raises."""
        return await self.evaluations.run(self.user, act)
