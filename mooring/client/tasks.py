"""Background tasks that run until they are stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

log = logging.getLogger("mooring")


class Tasks:
    """Tasks that are stopped together. A failure is logged at once."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def __iter__(self) -> Iterator[asyncio.Task[None]]:
        return iter(self._tasks)

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_log_failure)
        self._tasks.append(task)
        return task

    async def stop(self) -> None:
        """Cancel all tasks and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        log.critical("%s failed", task.get_name(), exc_info=failure)
