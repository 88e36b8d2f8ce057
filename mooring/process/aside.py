"""Where the core works: in a thread of its own on a live cluster, in place in virtual time.

The core is not made for several threads. While it is at work in one, what happens to it on the event loop is
held back, in order, and made up for in the same thread, before anything else happens there.

The event loop waits a few milliseconds for the thread, so nearly everything happens as if there were no
thread, and the two do not compete for the interpreter. If an attempt takes longer, because a plugin is slow
or an extender does not answer, the loop goes on: leases are renewed, and requests and signals are answered.
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from mooring.api.errors import ObjectError
from mooring.client.parallel import DaemonThreads

log = logging.getLogger("mooring.scheduler")

T = TypeVar("T")
PATIENCE_WITH_CHANGES = 0.008  # seconds
Ask = Callable[[Callable[[], Any]], Awaitable[Any]]  # `run`, or `at_once` where there is no thread


async def at_once(question: Callable[[], Any]) -> Any:
    return question()


class Workplace(Protocol):
    """Access to the core: `run` has work done there, `do` changes the core when it is at rest, and `rest`
    waits until it is."""

    @property
    def busy(self) -> bool: ...

    async def run(self, work: Callable[[], T]) -> T: ...

    def do(self, change: Callable[[], None], *, may_take_long: bool = False) -> None: ...

    async def rest(self) -> None: ...

    def close(self) -> None: ...


class InPlace:
    """Everything at once, on the event loop."""

    busy = False

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    def do(self, change: Callable[[], None], *, may_take_long: bool = False) -> None:
        change()

    async def rest(self) -> None:
        """Return at once."""

    def close(self) -> None:
        """Nothing to close."""


class Aside:
    """One thread for the core. The event loop waits for it for `patience` seconds, and then goes on."""

    def __init__(self, patience: float = 0.0) -> None:
        self._thread = DaemonThreads(1, "mooring-core")
        self._patience = patience
        self._busy = False
        self._held: deque[Callable[[], None]] = deque()
        self._turns: deque[asyncio.Future[None]] = deque()
        self._resting: list[asyncio.Future[None]] = []
        self._is_closed = False

    @property
    def busy(self) -> bool:
        return self._busy

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` on the core's thread and return its result; callers take turns. It cannot be
        interrupted: if the caller is cancelled, the next one still waits for it to end."""
        if self._busy:
            turn = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release()
                raise
        self._busy = True
        if not self._patience:  # the loop submits the work itself: one on virtual time stands still meanwhile
            future = asyncio.get_running_loop().run_in_executor(self._thread, self._after_changes, work)
        else:
            begun = self._thread.submit(self._after_changes, work)
            if _ends(begun, self._patience):
                self._release()
                return begun.result()
            future = asyncio.wrap_future(begun)
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def do(self, change: Callable[[], None], *, may_take_long: bool = False) -> None:
        """Change the core now, or as soon as it is at rest. What may take long is done in the thread, too."""
        if self._busy:
            self._held.append(change)
        elif may_take_long:
            self._do_aside(change)
        else:
            change()

    async def rest(self) -> None:
        """Wait until the core is at rest, or closed."""
        while self._busy and not self._is_closed:
            future = asyncio.get_running_loop().create_future()
            self._resting.append(future)
            await future

    def close(self) -> None:
        """End the thread; what is under way goes on without being waited for."""
        self._thread.shutdown()
        self._is_closed = True
        self._wake_resting()

    def _do_aside(self, change: Callable[[], None]) -> None:
        self._busy = True
        begun = self._thread.submit(change)
        if _ends(begun, PATIENCE_WITH_CHANGES):
            self._release()
            begun.result()
        else:
            asyncio.wrap_future(begun).add_done_callback(self._changed)

    def _changed(self, future: asyncio.Future[Any]) -> None:
        """A change has ended that its caller did not wait for."""
        if not future.cancelled() and (error := future.exception()) is not None:
            _report(error)
        self._release()

    def _done(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled():
            future.exception()  # is the caller's, who may be gone
        self._release()

    def _release(self) -> None:
        """Admit the next caller. If there is none, apply what was held back."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        if self._held:
            made_up = asyncio.get_running_loop().run_in_executor(self._thread, self._make_up)
            made_up.add_done_callback(self._done)
        else:
            self._be_at_rest()

    def _be_at_rest(self) -> None:
        self._busy = False
        self._wake_resting()

    def _wake_resting(self) -> None:
        resting, self._resting = self._resting, []
        for future in resting:
            if not future.done():
                future.set_result(None)

    def _after_changes(self, work: Callable[[], T]) -> T:
        """Run `work`, after what was held back by then: changes may come at every turn of the event loop."""
        self._make_up()
        return work()

    def _make_up(self) -> None:
        """Apply what was held back. More may be held back meanwhile."""
        for _ in range(len(self._held)):
            change = self._held.popleft()
            try:
                change()
            except Exception as error:
                _report(error)


def _report(error: BaseException) -> None:
    """Log why a change failed that was made after its caller had gone on."""
    if isinstance(error, ObjectError):
        log.warning("%s; skipped", error)
    else:
        log.error("cannot apply a deferred change", exc_info=error)


def _ends(work: Future[Any], seconds: float) -> bool:
    """Wait for the work to end, for so long at most."""
    try:
        work.exception(seconds)
    except TimeoutError:
        return False
    return True


@types.coroutine
def at_rest(work: Coroutine[Any, Any, T], core: Workplace) -> Generator[Any, Any, T]:
    """Run a coroutine that uses the core: it takes steps on the event loop only while the core is at rest."""
    failure: BaseException | None = None
    while True:
        try:
            if core.busy:
                yield from core.rest().__await__()
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            failure = error
        try:
            waiting = work.send(None) if failure is None else work.throw(failure)
        except StopIteration as end:
            result: T = end.value
            return result
        failure = None
        try:
            yield waiting
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            failure = error
