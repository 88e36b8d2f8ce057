"""Processes on one event loop, which can be paused, as by SIGSTOP, and killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from typing import Any

from tests.faults.faults import Fault

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Process:
    """Some tasks and all that they start. While it is paused none of them takes a step, although timers fire
    and requests that were sent before take effect. `on_failure` gets the exceptions of its tasks."""

    def __init__(self, name: str, on_failure: Callable[[str, BaseException], None]) -> None:
        self.name = name
        self._on_failure = on_failure
        self.paused = False
        self.killed = False
        self.faults: list[Fault] = []  # of its plugins
        self.tasks: list[asyncio.Task[Any]] = []
        self._context = copy_context()
        self._context.run(PROCESS.set, self)
        self._waiting: list[asyncio.Future[None]] = []

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name, context=self._context)
        self.tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not (self.killed or task.cancelled()) and (failure := task.exception()) is not None:
            self._on_failure(f"{self.name}, {task.get_name()}", failure)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def kill(self) -> None:
        """End all tasks. The caller must have closed the connections of the process before."""
        self.killed = True
        self.resume()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def gate(self) -> asyncio.Future[None]:
        """What a task waits for before its next step."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future


class _Gated(Coroutine[Any, Any, Any]):
    """A coroutine of a process: it takes no step while the process is paused."""

    def __init__(self, work: Coroutine[Any, Any, Any], process: Process) -> None:
        self._work = work
        self._process = process
        self._failure: BaseException | None = None

    def send(self, value: Any) -> Any:
        if self._process.paused:
            return self._wait()
        failure, self._failure = self._failure, None
        return self._work.send(value) if failure is None else self._work.throw(failure)

    def throw(self, failure: Any, value: Any = None, traceback: Any = None) -> Any:
        if self._process.paused:
            self._failure = failure
            return self._wait()
        return self._work.throw(failure)

    def _wait(self) -> asyncio.Future[None]:
        future = self._process.gate()
        future._asyncio_future_blocking = True
        return future

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()


def task_factory(
    loop: asyncio.AbstractEventLoop, work: Any, *, context: Context | None = None, **more: Any
) -> asyncio.Task[Any]:
    """Make a task, of the process whose task or callback makes it."""
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        work = _Gated(work, process)
    return asyncio.Task(work, loop=loop, context=context, **more)
