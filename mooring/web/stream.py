"""Server-sent events: the cluster once, then what changes, in batches that all clients share.

Nothing runs without a client. While there is one, the positions of the change logs are compared a few times
a second, and only changed nodes are encoded, once for all clients. A client that reconnects continues after
its last event, or starts with a new snapshot if that event is no longer kept.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from mooring.api.times import format_time
from mooring.core.scheduler import Scheduler
from mooring.web.columns import cluster_record, counts, node_columns
from mooring.web.decisions import RecentDecisions
from mooring.web.records import Counts
from mooring.web.source import Source

PERIOD = 0.15  # seconds between two batches
QUIET_PERIOD = 0.5  # between two looks when nothing has changed for QUIET_AFTER seconds
QUIET_AFTER = 2.0
HEARTBEAT = 15.0
MOST_NODES = 1000  # in one batch; the others follow in the next
MOST_DECISIONS = 200  # in one batch; of the others only the number is sent
MOST_CLIENTS = 16
KEPT_BYTES = 4 << 20  # of batches, for clients that reconnect
LONGEST_NUMBER = 12  # digits of an event's number


class TooManyClientsError(Exception):
    """There are MOST_CLIENTS streams already."""


class Stream:
    """The changes of one source, for any number of clients up to MOST_CLIENTS."""

    def __init__(
        self, source: Source, decisions: RecentDecisions, state: Callable[[], dict[str, Any]] = dict
    ) -> None:
        self.epoch = secrets.token_hex(4)
        self._source = source
        self._decisions = decisions
        self._state = state
        self._changes = _Changes()
        self._sent_decisions = 0
        self._sent_state: dict[str, Any] = {}
        self._seq = 0
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._clients = 0
        self._news = asyncio.Event()
        self._collecting: asyncio.Task[None] | None = None

    @property
    def clients(self) -> int:
        return self._clients

    async def events(self, after: str, *, seconds: float | None = None) -> AsyncIterator[bytes]:
        """Yield events until the client is gone, or for so many seconds. `after` is the last event's id.
        Raises TooManyClientsError."""
        if self._clients >= MOST_CLIENTS:
            raise TooManyClientsError
        return self._follow(after, seconds)

    async def _follow(self, after: str, seconds: float | None) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        self._clients += 1
        try:
            core = self._source.core
            if core is not None and self._changes.core is None:
                await self._source.ask(partial(self._changes.begin, core))
            if self._collecting is None or self._collecting.done():
                self._collecting = asyncio.create_task(self._collect(), name="web: changes")
            seq = self._seq_of(after)
            if not self._reaches_back_to(seq):
                seq = self._seq
                yield await self._snapshot()
            else:
                yield b": resumed\n\n"
            while end is None or loop.time() < end:
                if not self._reaches_back_to(seq):  # too slow: start over
                    seq = self._seq
                    yield await self._snapshot()
                elif seq < self._seq:
                    frames = [frame for _, frame in islice(reversed(self._kept), self._seq - seq)]
                    seq = self._seq
                    yield b"".join(reversed(frames))
                else:
                    yield await self._wait()
            yield b"event: bye\ndata: {}\n\n"
        finally:
            self._clients -= 1

    def _seq_of(self, event: str) -> int:
        """Return the number in the id of an event; -1 if it is not one of this stream."""
        epoch, _, number = event.partition(".")
        ours = epoch == self.epoch and number.isdecimal() and len(number) <= LONGEST_NUMBER
        return int(number) if ours else -1

    def _reaches_back_to(self, seq: int) -> bool:
        return seq == self._seq or bool(self._kept and self._kept[0][0] <= seq + 1 <= self._seq + 1)

    async def _wait(self) -> bytes:
        """Wait for the next batch; a comment shows that the connection is alive."""
        try:
            async with asyncio.timeout(HEARTBEAT):
                await self._news.wait()
        except TimeoutError:
            return b": alive\n\n"
        return b""

    async def _snapshot(self) -> bytes:
        """Everything at present, under the number of the last batch."""
        core = self._source.core
        record = None if core is None else await self._source.ask(lambda: cluster_record(core))
        rows, _ = self._decisions.since(max(0, self._sent_decisions - MOST_DECISIONS), MOST_DECISIONS)
        body = {
            "cluster": record,
            "decisions": [row for row in rows if row.seq <= self._sent_decisions],
            "state": self._state(),
            "status": self._source.status(),
        }
        return self._frame("snapshot", body)

    def _frame(self, event: str, body: Any) -> bytes:
        data = msgspec.json.encode(body)
        return b"id: %b.%d\nevent: %b\ndata: %b\n\n" % (
            self.epoch.encode(), self._seq, event.encode(), data,
        )  # fmt: skip

    # ---- collecting

    async def _collect(self) -> None:
        loop = asyncio.get_running_loop()
        changed = loop.time()
        while self._clients:
            core = self._source.core
            if core is not None:
                body = await self._source.ask(partial(self._changes.take, core))
                self._add_rest(body)
                if body:
                    body["asOf"] = format_time(core.clock())
                    self._keep(body)
                    changed = loop.time()
            await asyncio.sleep(PERIOD if loop.time() - changed < QUIET_AFTER else QUIET_PERIOD)

    def _add_rest(self, body: dict[str, Any]) -> None:
        if self._decisions.last > self._sent_decisions:
            rows, dropped = self._decisions.since(self._sent_decisions, MOST_DECISIONS)
            body["decisions"] = rows
            if dropped:
                body["dropped"] = dropped
            self._sent_decisions = self._decisions.last
        state = {**self._state(), "status": self._source.status()}
        if state != self._sent_state:
            body["state"] = self._sent_state = state

    def _keep(self, body: dict[str, Any]) -> None:
        self._seq += 1
        frame = self._frame("delta", body)
        self._kept.append((self._seq, frame))
        self._kept_bytes += len(frame)
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft()[1])
        news, self._news = self._news, asyncio.Event()
        news.set()


class _Changes:
    """What changed in a scheduler since the last look."""

    def __init__(self) -> None:
        self.core: Scheduler | None = None
        self._positions = (0, 0)
        self._names: set[str] = set()
        self._waiting: dict[str, None] = {}  # names of changed nodes that did not fit into the last batch
        self._counts = Counts()
        self._attempts = -1

    def begin(self, core: Scheduler) -> None:
        """Start from the present: a snapshot that follows has it all."""
        table = core.cluster.table
        self.core, self._names = core, set(table.names)
        self._positions = (table.node_log.position, table.pod_log.position)

    def take(self, core: Scheduler) -> dict[str, Any]:
        """Return what changed; empty if nothing did."""
        table = core.cluster.table
        positions = (table.node_log.position, table.pod_log.position)
        body: dict[str, Any] = {}
        if core is not self.core or positions != self._positions or self._waiting:
            self._take_nodes(core, body)
        self.core, self._positions = core, positions
        current, attempts = counts(core), core.queue.scheduling_cycle
        if current != self._counts or attempts != self._attempts:
            self._counts, self._attempts = current, attempts
            body["counts"] = current
        return body

    def _take_nodes(self, core: Scheduler, body: dict[str, Any]) -> None:
        table = core.cluster.table
        names = set(table.names)
        changed = self._waiting
        if core is not self.core:
            changed = dict.fromkeys(table.names)
        else:
            logs = (table.node_log.since(self._positions[0]), table.pod_log.since(self._positions[1]))
            for rows in logs:
                present = table.names if rows is None else _names(table.names, rows)
                changed.update(dict.fromkeys(present))
            changed.update(dict.fromkeys(names - self._names))
        if gone := self._names - names:
            body["gone"] = sorted(gone)
        chosen = [name for name in changed if name in names][:MOST_NODES]
        self._waiting = {name: None for name in list(changed)[len(chosen) :] if name in names}
        self._names = names
        if chosen:
            body["nodes"] = node_columns(core, [table.row_of[name] for name in chosen])


def _names(names: list[str], rows: Any) -> list[str]:
    return [names[row] for row in set(rows) if row < len(names)]
