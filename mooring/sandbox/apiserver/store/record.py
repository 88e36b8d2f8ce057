"""Stored objects and their changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

_NO_LABELS: Final[Mapping[str, str]] = {}
OPENING: Final = b'{"metadata":{'


class Record:
    """An object at a version: encoded, with the labels and fields that selectors use.

    `tail` is the object's JSON after `{"metadata":{"resourceVersion":"…",`. Without the version, the same
    bytes serve at another version (the last state of a deleted object is reported at the version of its
    deletion); without kind and apiVersion, they serve every version of the API.
    """

    __slots__ = ("fields", "key", "labels", "tail", "version")

    def __init__(
        self,
        key: str,
        version: int,
        tail: bytes,
        labels: Mapping[str, str] | None = None,
        fields: tuple[str, ...] = (),
    ) -> None:
        self.key = key
        self.version = version
        self.tail = tail
        self.labels = labels or _NO_LABELS
        self.fields = fields

    @property
    def namespace(self) -> str:
        namespace, slash, _ = self.key.partition("/")
        return namespace if slash else ""

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def body(self) -> bytes:
        """The object's JSON, without kind and apiVersion."""
        return b'{"metadata":{"resourceVersion":"%d",%b' % (self.version, self.tail)

    def at(self, version: int) -> Record:
        """Return the same content at another version."""
        return Record(self.key, version, self.tail, self.labels, self.fields)

    def __repr__(self) -> str:
        return f"Record({self.key!r}, {self.version})"


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class Event:
    """A change of one object. `before` is None for added objects."""

    __slots__ = ("before", "record", "type", "version")

    def __init__(self, type: EventType, record: Record, before: Record | None) -> None:
        self.type = type
        self.record = record
        self.before = before
        self.version = record.version

    def __repr__(self) -> str:
        return f"Event({self.type}, {self.record!r})"
