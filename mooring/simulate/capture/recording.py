"""Recordings: what the scheduler sees of a cluster, change by change, as lines of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject, Tree
from mooring.client.informers import Informer
from mooring.client.port import Cluster
from mooring.client.tasks import Tasks
from mooring.client.troubles import Troubles
from mooring.simulate.capture.scrubbing import Scrubber
from mooring.simulate.capture.snapshot import KINDS, tree_of

HEADER = "mooring-recording"


class Header(msgspec.Struct, rename="camel"):
    """The first line."""

    format: str
    version: int
    started: str
    scrubbed: bool


class Line(msgspec.Struct):
    """A change: seconds since the start (0: it was there before), applied or deleted, the object."""

    t: float
    type: str
    object: dict[str, Any]


class Recorder:
    """Follows all kinds and writes what changes."""

    def __init__(
        self,
        cluster: Cluster,
        file: BinaryIO,
        started: str,
        clock: Callable[[], float],
        scrubber: Scrubber | None = None,
    ) -> None:
        self._file, self._clock, self._scrubber = file, clock, scrubber
        self.changes = 0
        self._began: float | None = None
        self._encode = msgspec.json.Encoder().encode
        troubles = Troubles()
        self._informers = [
            Informer(cluster, resource, _Sink(self, resource), optional=True, troubles=troubles)
            for resource in KINDS
        ]
        self._write(Header(HEADER, 1, started, scrubber is not None))

    async def run(self, seen: Callable[[int], None] = lambda objects: None) -> None:
        """Record until cancelled. `seen` is called with the number of objects there are at the start."""
        tasks = Tasks()
        try:
            for informer in self._informers:
                tasks.start(f"record {informer.resource.name}", informer.run())
            for informer in self._informers:
                await informer.synced.wait()
            self._began = self._clock()
            objects, self.changes = self.changes, 0
            self._file.flush()
            seen(objects)
            while True:
                await asyncio.sleep(1.0)
                self._file.flush()
        finally:
            await tasks.stop()
            self._file.flush()

    def note(self, resource: ApiResource[Any], obj: KubeObject, type: str) -> None:
        now = 0.0 if self._began is None else round(self._clock() - self._began, 6)
        tree = tree_of(obj, resource)
        self.changes += 1
        self._write(Line(now, type, tree if self._scrubber is None else self._scrubber.scrub(tree)))

    def _write(self, line: Header | Line) -> None:
        self._file.write(self._encode(line) + b"\n")


class _Sink:
    def __init__(self, recorder: Recorder, resource: ApiResource[Any]) -> None:
        self._recorder, self._resource = recorder, resource

    def apply(self, obj: KubeObject) -> None:
        self._recorder.note(self._resource, obj, "APPLIED")

    def delete(self, obj: KubeObject) -> None:
        self._recorder.note(self._resource, obj, "DELETED")


def read_lines(path: Path) -> list[tuple[float, str, Tree]]:
    """The lines of a recording; a last line that is cut off is dropped. Raises ValueError."""
    try:
        texts = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    try:
        header = msgspec.json.decode(texts[0], type=Header)
    except (msgspec.DecodeError, RecursionError):
        header = None
    if header is None or header.format != HEADER:
        raise ValueError(f"{path}: not a recording\n  hint: mooring simulate record -o {path}")
    lines = []
    for number, text in enumerate(texts[1:], 2):
        if text:
            try:
                line = msgspec.json.decode(text, type=Line)
            except RecursionError:
                raise ValueError(f"{path}:{number}: nested too deeply") from None
            except msgspec.DecodeError as error:
                if number == len(texts):
                    break
                raise ValueError(f"{path}:{number}: {error}") from None
            lines.append((line.t, line.type, line.object))
    return lines
