"""Threads for what may take long, or waits for something outside the scheduler."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class DaemonThreads(Executor):
    """Up to `most` threads, started when there is work and none is idle. Unlike those of a ThreadPoolExecutor
    they do not keep the process alive: one that hangs, in a plugin for example, cannot prevent its end."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._work.put(work)
        if self._started < self._most and not self._idle.acquire(blocking=False):
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._run, args=(self._idle,), name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """End the threads once their work is done, without waiting. Later work starts new ones."""
        for _ in range(self._started):
            self._work.put(None)
        self._started, self._idle = 0, threading.Semaphore(0)

    def _run(self, idle: threading.Semaphore) -> None:
        while (work := self._next(idle)) is not None:
            work()
            del work

    def _next(self, idle: threading.Semaphore) -> Callable[[], None] | None:
        try:
            return self._work.get_nowait()
        except Empty:
            idle.release()
            return self._work.get()


class Threads:
    """The Handle's `parallelize` on up to `parallelism` threads."""

    def __init__(self, parallelism: int) -> None:
        self._threads = DaemonThreads(parallelism, "mooring-plugin")

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return list(self._threads.map(work, items))
