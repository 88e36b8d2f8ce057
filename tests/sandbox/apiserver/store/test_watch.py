"""Watches, as the flush notifies them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.sandbox.apiserver.store.store import Store


def test_others_have_their_turn_while_many_watches_are_notified() -> None:
    async def run() -> None:
        due: list[Callable[[], None]] = []
        store = Store()
        store.soon = due.append
        table = store.table("t")
        waiting = [
            asyncio.create_task(store.watch(table, store.version).wait()) for _ in range(200)
        ]  # fmt: skip
        await asyncio.sleep(0)
        table.put("a", b'"name":"a"}}')
        woken = []
        while due:
            due.pop(0)()
            await asyncio.sleep(0.001)
            woken.append(sum(one.done() for one in waiting))
        assert woken[-1] == 200
        assert len(woken) > 2

    asyncio.run(run())
