"""The other objects the scheduler watches, by kind: the plugins' Listers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from mooring.api.meta import KubeObject

Obj = TypeVar("Obj", bound=KubeObject)


class ObjectStore:
    """Objects by kind and key, with a version per kind that changes whenever one of them does."""

    def __init__(self) -> None:
        self._objects: dict[type[KubeObject], dict[str, KubeObject]] = {}
        self._versions: dict[type[KubeObject], int] = {}

    def put(self, obj: KubeObject) -> KubeObject | None:
        """Store an object; returns the version it replaces."""
        kind = type(obj)
        objects = self._objects.setdefault(kind, {})
        old = objects.get(obj.key)
        objects[obj.key] = obj
        self._versions[kind] = self._versions.get(kind, 0) + 1
        return old

    def remove(self, kind: type[KubeObject], key: str) -> KubeObject | None:
        old = self._objects.get(kind, {}).pop(key, None)
        if old is not None:
            self._versions[kind] = self._versions.get(kind, 0) + 1
        return old

    def get(self, kind: type[Obj], name: str, namespace: str = "") -> Obj | None:
        key = f"{namespace}/{name}" if namespace else name
        return cast("Obj | None", self._objects.get(kind, {}).get(key))

    def list(self, kind: type[Obj], namespace: str | None = None) -> Sequence[Obj]:
        objects = self._objects.get(kind, {}).values()
        return [cast(Obj, o) for o in objects if namespace is None or o.metadata.namespace == namespace]

    def version(self, kind: type[KubeObject]) -> int:
        return self._versions.get(kind, 0)
