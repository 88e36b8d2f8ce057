"""The chain of admission plugins, run around every write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mooring.embedded.objects import Tree

if TYPE_CHECKING:
    from mooring.embedded.verbs.write import Write


class AdmissionPlugin:
    """Base class. `operations` and `storages` say what a plugin wants to see; no storages means all.

    Writes to subresources are shown only to plugins that set `subresources`.
    """

    operations: frozenset[str] = frozenset({"CREATE"})
    storages: frozenset[str] = frozenset()
    subresources: bool = False

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        """Change the object, or raise ApiError; before the strategy prepares and validates it."""

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        """Raise ApiError; the object is as it would be stored. For DELETE, `obj` is what goes."""

    def handles(self, write: Write) -> bool:
        return (
            write.operation in self.operations
            and (not self.storages or write.resource.storage in self.storages)
            and (self.subresources or not write.subresource)
        )


class Admission:
    """Plugins in the order in which they run."""

    def __init__(self, plugins: Sequence[AdmissionPlugin]) -> None:
        self._plugins = tuple(plugins)

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        for plugin in self._plugins:
            if plugin.handles(write):
                plugin.admit(write, obj, old)

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        for plugin in self._plugins:
            if plugin.handles(write):
                plugin.validate(write, obj, old)
