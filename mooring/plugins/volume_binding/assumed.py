"""Objects as they will be once the writes in flight have arrived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from mooring.api.meta import KubeObject
from mooring.framework.handle import Listers

Obj = TypeVar("Obj", bound=KubeObject)


class Assumed(Generic[Obj]):
    """Changes to objects of one kind that the scheduler has decided but not yet seen from the API server.

    An assumption holds for the version of the object it was made for: as soon as a newer one is seen, or
    the object is gone, it is dropped, whatever the newer one says.
    """

    def __init__(self, kind: type[Obj]) -> None:
        self._kind = kind
        self._by_key: dict[str, tuple[Obj, Obj]] = {}  # key → (the version it was made for, as assumed)
        self._checked: int | None = None
        self.revision = 0  # changes whenever an assumption is made or taken back

    def live(self, listers: Listers) -> Mapping[str, Obj]:
        """All assumed objects, by key."""
        version = listers.version(self._kind)
        if version != self._checked:
            self._checked = version
            stale = [key for key, (base, _) in self._by_key.items() if not self._holds(listers, base)]
            for key in stale:
                del self._by_key[key]
        return {key: assumed for key, (_, assumed) in self._by_key.items()}

    def get(self, listers: Listers, name: str, namespace: str = "") -> Obj | None:
        """The object as assumed, or else as the API server has it."""
        seen = listers.get(self._kind, name, namespace)
        entry = None if seen is None else self._by_key.get(seen.key)
        if seen is None or entry is None or not _same_version(seen, entry[0]):
            return seen
        return entry[1]

    def assume(self, listers: Listers, changed: Obj) -> None:
        base = listers.get(self._kind, changed.name, changed.namespace)
        if base is not None:
            self._by_key[changed.key] = (base, changed)
            self.revision += 1

    def restore(self, changed: Obj) -> None:
        """Take an assumption back, unless another has replaced it."""
        entry = self._by_key.get(changed.key)
        if entry is not None and entry[1] is changed:
            del self._by_key[changed.key]
            self.revision += 1

    def _holds(self, listers: Listers, base: Obj) -> bool:
        seen = listers.get(self._kind, base.name, base.namespace)
        return seen is not None and _same_version(seen, base)


def _same_version(a: KubeObject, b: KubeObject) -> bool:
    """Whether two sightings of an object are of the same version; embedded stores may not number them."""
    versions = a.metadata.resource_version, b.metadata.resource_version
    return a is b if versions == ("", "") else versions[0] == versions[1]
