"""What changed among the objects of a kind since one last looked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import is_not
from typing import Generic, TypeVar

from mooring.api.meta import KubeObject
from mooring.framework.handle import Listers

Obj = TypeVar("Obj", bound=KubeObject)


class Watched(Generic[Obj]):
    """Updates an index of objects: which ones to remove and which to add. An update is both.

    Objects are immutable, so an identical object has not changed.
    """

    def __init__(self, kind: type[Obj]) -> None:
        self._kind = kind
        self._version: int | None = None
        self._seen: Sequence[Obj] = ()

    def changes(self, listers: Listers) -> tuple[Sequence[Obj], Sequence[Obj]]:
        """The objects that went and those that came since the last call."""
        version = listers.version(self._kind)
        if version == self._version:
            return (), ()
        before, self._seen = self._seen, listers.list(self._kind)
        self._version = version
        seen = self._seen
        # An object keeps its place when others change or come, so nearly all are found where they were.
        moved = list(map(is_not, before, seen))
        gone = [*compress(before, moved), *before[len(seen) :]]
        come = [*compress(seen, moved), *seen[len(before) :]]
        old, new = set(map(id, gone)), set(map(id, come))
        return [o for o in gone if id(o) not in new], [o for o in come if id(o) not in old]
