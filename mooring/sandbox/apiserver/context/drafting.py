"""Work that is too long for the event loop: in a thread, on a draft that is committed afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from mooring.client.virtual_time import VirtualTimeLoop
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.store.draft import OutdatedError
from mooring.sandbox.apiserver.store.record import Record

T = TypeVar("T")

LARGE: Final = 16 * 1024
"""Bytes of an object, or of what a client sent, that may take tens of milliseconds."""
_MOST_DRAFTS: Final = 10


def has_threads() -> bool:
    """Whether work may be done in a thread: not without a loop, and not on virtual time, where the speed of a
    thread would decide the order of writes."""
    try:
        return not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    except RuntimeError:
        return False


async def run_drafted(api: Api, user: str, work: Callable[[Api], T]) -> tuple[T, dict[Record, Record]]:
    """Return the result of `work` for a user, and the stored records by the drafted ones.

    `work` is called again if something that it has read was changed meanwhile. Raises OutdatedError if that
    happens too often.
    """
    at_once = not has_threads()
    async with api.draft_turns.turn(user):
        for _ in range(_MOST_DRAFTS):
            drafted, draft = api.draft()
            result = work(drafted) if at_once else await asyncio.to_thread(work, drafted)
            try:
                return result, draft.commit()
            except OutdatedError:
                continue
    raise OutdatedError
