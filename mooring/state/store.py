"""The other objects the scheduler watches, by kind: the plugins' Listers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

from mooring.api.meta import KubeObject

Obj = TypeVar("Obj", bound=KubeObject)


class ChangeFeed(Generic[Obj]):
    """The changes of one kind for one reader. What happened to an object between two reads is kept as one
    change where it would be much more than there are objects: a reader may not come for days."""

    SPARE = 1024

    def __init__(self, existing: Sequence[Obj]) -> None:
        self._pending: list[tuple[Obj | None, Obj | None]] = [(None, obj) for obj in existing]
        self._merge_at = 2 * len(existing) + self.SPARE

    def __len__(self) -> int:
        return len(self._pending)

    def take(self) -> Sequence[tuple[Obj | None, Obj | None]]:
        """Return the changes since the last call, oldest first: the object before and after, or None."""
        taken, self._pending, self._merge_at = self._pending, [], self.SPARE
        return taken

    def add(self, old: Obj | None, new: Obj | None) -> None:
        self._pending.append((old, new))
        if len(self._pending) > self._merge_at:
            self._pending = self._merged()
            self._merge_at = 2 * len(self._pending) + self.SPARE

    def _merged(self) -> list[tuple[Obj | None, Obj | None]]:
        """One change for each object, in the order of the last ones."""
        merged: dict[str, tuple[Obj | None, Obj | None]] = {}
        for old, new in self._pending:
            obj = old if new is None else new
            assert obj is not None
            first = merged.pop(obj.key, (old, None))[0]
            if first is not None or new is not None:
                merged[obj.key] = (first, new)
        return list(merged.values())


class ObjectStore:
    """Objects by kind and key, with a version per kind that changes whenever one of them does."""

    def __init__(self) -> None:
        self._objects: dict[type[KubeObject], dict[str, KubeObject]] = {}
        self._versions: dict[type[KubeObject], int] = {}
        self._feeds: dict[type[KubeObject], list[ChangeFeed[Any]]] = {}

    def put(self, obj: KubeObject) -> KubeObject | None:
        """Store an object; returns the version it replaces."""
        kind = type(obj)
        objects = self._objects.setdefault(kind, {})
        old = objects.get(obj.key)
        objects[obj.key] = obj
        self._changed(kind, old, obj)
        return old

    def remove(self, kind: type[KubeObject], key: str) -> KubeObject | None:
        old = self._objects.get(kind, {}).pop(key, None)
        if old is not None:
            self._changed(kind, old, None)
        return old

    def _changed(self, kind: type[KubeObject], old: KubeObject | None, new: KubeObject | None) -> None:
        self._versions[kind] = self._versions.get(kind, 0) + 1
        for feed in self._feeds.get(kind, ()):
            feed.add(old, new)

    def changes(self, kind: type[Obj]) -> ChangeFeed[Obj]:
        feed = ChangeFeed(self.list(kind))
        self._feeds.setdefault(kind, []).append(feed)
        return feed

    def get(self, kind: type[Obj], name: str, namespace: str = "") -> Obj | None:
        key = f"{namespace}/{name}" if namespace else name
        return cast("Obj | None", self._objects.get(kind, {}).get(key))

    def list(self, kind: type[Obj], namespace: str | None = None) -> Sequence[Obj]:
        objects = self._objects.get(kind, {}).values()
        return [cast(Obj, o) for o in objects if namespace is None or o.metadata.namespace == namespace]

    def all(self) -> Iterator[KubeObject]:
        """Every object of every kind."""
        for objects in self._objects.values():
            yield from objects.values()

    def version(self, kind: type[KubeObject]) -> int:
        return self._versions.get(kind, 0)
