"""watch: changes from a version on, in batches."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.options import ListOptions
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.errors import expired
from mooring.sandbox.apiserver.store.record import EventType, Record
from mooring.sandbox.apiserver.store.table import CompactedError
from mooring.sandbox.apiserver.store.watch import Listener, Predicate, Watch
from mooring.sandbox.apiserver.verbs.reading import list_objects, parse_version, reached_version
from mooring.sandbox.apiserver.verbs.selectors import matcher

_BATCH = 500
_BOOKMARK_SECONDS = 60.0
_SHORTEST_DEFAULT = 1800.0  # a watch without a timeout ends after this long, or up to twice as long
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


class Batch(NamedTuple):
    """Changes, optionally followed by a bookmark: all changes up to this version were sent."""

    changes: Sequence[tuple[EventType, Record]] = ()
    bookmark: int = 0
    annotations: Mapping[str, str] | None = None
    """Annotations of the bookmark."""


def watch_objects(api: Api, resource: Resource, namespace: str, options: ListOptions) -> Watching:
    """Watch the changes of a resource, or of those of its objects that a selector selects.

    Invalid options are raised here; a version that is too old is raised by the iteration, at once or when the
    reader has fallen behind.
    """
    matches = matcher(resource, namespace, options.label_selector, options.field_selector)
    initial: list[Record] | None = None
    version = parse_version(options.resource_version)
    if options.send_initial_events or (version == 0 and options.send_initial_events is None):
        reached_version(api, options.resource_version)
        selection = ListOptions(label_selector=options.label_selector, field_selector=options.field_selector)
        initial = list_objects(api, resource, namespace, selection).records
    after = api.store.version if initial is not None or version == 0 else version
    return Watching(api, resource, matches, options, initial, after)


class Watching:
    """One watch from its first batch to its last."""

    def __init__(
        self,
        api: Api,
        resource: Resource,
        matches: Predicate | None,
        options: ListOptions,
        initial: list[Record] | None,
        after: int,
    ) -> None:
        self._api = api
        self._options = options
        self._initial = initial
        self._after = after
        self._table = api.table(resource)
        self._matches = matches
        self._watch: Watch | None = None

    def close(self) -> None:
        """End the watch and wake its reader."""
        if self._watch is not None:
            self._watch.close()

    async def deliver(self, listener: Listener) -> None:
        """Call a function in this process with every change, until the watch is closed or this is cancelled:
        without bookmarks, timeouts and a task that has to wake up for each change. Raises 410 like
        `batches`."""
        try:
            watch = self._watch = self._api.store.watch(self._table, self._after, self._matches)
        except CompactedError as error:
            raise expired(str(error)) from None
        try:
            await watch.deliver(listener)
        except CompactedError as error:
            raise expired(str(error)) from None
        finally:
            watch.close()

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield batches until the timeout; raises 410 if the history does not reach back far enough."""
        try:
            watch = self._watch = self._api.store.watch(self._table, self._after, self._matches)
        except CompactedError as error:
            raise expired(str(error)) from None
        try:
            for batch in self._initial_batches():
                yield batch
            async for batch in self._changes(watch):
                yield batch
        except CompactedError as error:
            raise expired(str(error)) from None
        finally:
            watch.close()

    def _initial_batches(self) -> list[Batch]:
        initial = self._initial or []
        batches = [
            Batch([("ADDED", record) for record in initial[start : start + _BATCH]])
            for start in range(0, len(initial), _BATCH)
        ]
        if self._options.send_initial_events:
            batches.append(Batch(bookmark=self._after, annotations=INITIAL_EVENTS_END))
        return batches

    async def _changes(self, watch: Watch) -> AsyncIterator[Batch]:
        clock = asyncio.get_running_loop().time
        end = clock() + self._duration()
        bookmark = clock() + _BOOKMARK_SECONDS if self._options.bookmarks else end
        while not watch.closed:
            changes = watch.take(_BATCH)
            if changes:
                yield Batch(changes)
                continue
            now = clock()
            if now >= end:
                break
            if now >= bookmark:
                bookmark = now + _BOOKMARK_SECONDS
                yield Batch(bookmark=self._seen(watch))
            await watch.wait(min(end, bookmark) - now)
        if self._options.bookmarks and not watch.closed:
            yield Batch(bookmark=self._seen(watch))

    def _seen(self, watch: Watch) -> int:
        """The version up to which everything was sent."""
        return self._api.store.visible if watch.drained else watch.version

    def _duration(self) -> float:
        requested = self._options.timeout_seconds
        return float(requested) if requested else _SHORTEST_DEFAULT * random.uniform(1, 2)


Convert = Callable[[Sequence[Record]], Awaitable[list[Record]]]


class ConvertedWatching:
    """A watch whose objects are converted by a webhook. It ends with an error if one cannot be."""

    def __init__(self, watching: Watching | ConvertedWatching, convert: Convert) -> None:
        self._watching = watching
        self._convert = convert

    def close(self) -> None:
        self._watching.close()

    async def deliver(self, listener: Listener) -> None:
        async for batch in self.batches():
            for type, record in batch.changes:
                listener(type, record)

    async def batches(self) -> AsyncIterator[Batch]:
        async for batch in self._watching.batches():
            records = await self._convert([record for _, record in batch.changes])
            changes = [(type, record) for (type, _), record in zip(batch.changes, records, strict=True)]
            yield batch._replace(changes=changes)
