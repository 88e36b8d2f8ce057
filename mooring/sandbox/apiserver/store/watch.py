"""A watch: a position in the history of a table."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from mooring.sandbox.apiserver.store.record import Event, EventType, Record
from mooring.sandbox.apiserver.store.table import CompactedError, Table

log = logging.getLogger("mooring.apiserver")

Predicate = Callable[[Record], bool]
Change = tuple[EventType, Record]

Listener = Callable[[EventType, Record], None]
_BATCH = 256
"""Changes that a listener gets before others on the event loop have their turn."""
_MOST_BYTES = 4 * 1024 * 1024
"""Size of objects taken at once: they are encoded for a client that may not read them."""


class Watch:
    """Reads on from a position, up to the last flush. It buffers nothing: a reader that is slower than the
    window gets CompactedError, and delays no other."""

    def __init__(self, table: Table, position: int, matches: Predicate | None = None) -> None:
        self._table = table
        self._position = position
        self._matches = matches
        self._waiter: asyncio.Future[None] | None = None
        self._listener: Listener | None = None
        self.closed = False
        table.watches[self] = None

    def take(self, limit: int) -> list[Change]:
        """Return the next matching changes, at most `limit`, fewer if they are large; empty if there are none
        yet."""
        table = self._table
        start = self._position - table.dropped
        if start < 0:
            raise CompactedError(self.version, table.compacted)
        changes: list[Change] = []
        size, matches = 0, self._matches
        for event in self._unseen():
            self._position += 1
            change = (event.type, event.record) if matches is None else _seen_by(matches, event)
            if change is not None:
                changes.append(change)
                size += len(event.record.tail)
                if len(changes) == limit or size > _MOST_BYTES:
                    break
        return changes

    def _unseen(self) -> Iterator[Event]:
        """Yield the visible events from this position on. By index: an iterator would walk over all before
        them."""
        table = self._table
        places = range(self._position - table.dropped, table.visible - table.dropped)
        return map(table.events.__getitem__, places)

    @property
    def version(self) -> int:
        """Everything up to this version was taken."""
        table = self._table
        start = self._position - table.dropped
        if start >= 1:
            return table.events[start - 1].version
        return table.compacted if start == 0 else 0

    @property
    def drained(self) -> bool:
        """Whether everything visible was taken."""
        return self._position >= self._table.visible

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until there may be something to take, the watch is closed, or the timeout has passed."""
        if self.closed or not self.drained:
            return
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = None if seconds is None else loop.call_later(max(seconds, 0.0), _wake, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    async def deliver(self, listener: Listener) -> None:
        """Call a function with every change, from within the flush, until the watch is closed. Raises what it
        raises."""
        if self.closed:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        self._listener = listener
        try:
            self._pass_on(self._waiter)
            await self._waiter
        finally:
            self._waiter = self._listener = None

    def _pass_on(self, waiter: asyncio.Future[None]) -> None:
        listener = self._listener
        if listener is None or waiter.done():
            return
        try:
            for type, record in self.take(_BATCH):
                listener(type, record)
        except Exception as error:
            waiter.set_exception(error)
        else:
            if not self.drained:
                waiter.get_loop().call_soon(self._pass_on, waiter)

    def notify(self) -> None:
        """Called by the flush. A watch whose selector matches none of the new events stays asleep."""
        if self._waiter is None:
            return
        if self._listener is not None:
            self._pass_on(self._waiter)
            return
        try:
            matching = self._matches is None or self._skip()
        except Exception:  # the flush continues: other watches must get their events
            log.exception("closing a watch of %s: its selector failed", self._table.name)
            self.close()
        else:
            if matching:
                _wake(self._waiter)

    def _skip(self) -> bool:
        """Skip events that do not match; return whether there is one that does."""
        matches = self._matches
        if self._position < self._table.dropped:  # too slow, which `take` will report
            return True
        for event in self._unseen():
            if matches is None or _seen_by(matches, event) is not None:
                return True
            self._position += 1
        return False

    def close(self) -> None:
        """End the watch and wake its reader."""
        self.closed = True
        self._table.watches.pop(self, None)
        if self._waiter is not None:
            _wake(self._waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _seen_by(matches: Predicate, event: Event) -> Change | None:
    """Translate an event for a watch with a selector: objects appear and disappear."""
    before = event.before is not None and matches(event.before)
    after = event.type != "DELETED" and matches(event.record)
    if after:
        return ("MODIFIED" if before else "ADDED"), event.record
    if before and event.before is not None:
        return "DELETED", event.before.at(event.version)
    return None
