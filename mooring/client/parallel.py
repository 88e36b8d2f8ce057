"""Threads for plugins that wait for something outside the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Threads:
    """The Handle's `parallelize` on up to `parallelism` threads, started when first needed."""

    def __init__(self, parallelism: int) -> None:
        self._parallelism = parallelism
        self._pool: ThreadPoolExecutor | None = None

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._parallelism, thread_name_prefix="mooring-plugin")
        return list(self._pool.map(work, items))
