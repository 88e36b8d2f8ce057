"""Threads for what may take long, or waits for something outside the scheduler."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class DaemonThreads(Executor):
    """Up to `most` threads, started when there is more work than threads.

    Unlike those of a ThreadPoolExecutor they do not keep the process alive: one that hangs, in a plugin for
    example, cannot prevent its end.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._started = 0
        self._unfinished = 0  # of the work submitted
        self._counting = threading.Lock()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        with self._counting:
            self._unfinished += 1
            lacks_thread = self._started < min(self._unfinished, self._most)
            self._started += lacks_thread
            name = f"{self._name}-{self._started}"
        self._work.put(work)
        if lacks_thread:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """End the threads once their work is done, without waiting. Later work starts new ones."""
        with self._counting:
            started, self._started = self._started, 0
        for _ in range(started):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work
            with self._counting:
                self._unfinished -= 1


class Threads:
    """The Handle's `parallelize` on up to `parallelism` threads."""

    def __init__(self, parallelism: int) -> None:
        self._threads = DaemonThreads(parallelism, "mooring-plugin")

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return list(self._threads.map(work, items))
