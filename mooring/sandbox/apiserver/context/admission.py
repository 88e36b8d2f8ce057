"""The chain of admission plugins, run around every write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.store.presence import Presence

if TYPE_CHECKING:
    from mooring.sandbox.apiserver.context.write import Write
    from mooring.sandbox.apiserver.store.store import Store


class AdmissionPlugin:
    """Base class. `operations` and `storages` select the writes that a plugin handles; no storages means all.

    Writes to subresources are passed only to plugins that set `subresources`. A plugin that `needs` tables is
    skipped while none of them has an object.
    """

    operations: frozenset[str] = frozenset({"CREATE"})
    storages: frozenset[str] = frozenset()
    subresources: bool = False
    needs: tuple[str, ...] = ()

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        """Change the object, or raise ApiError; before the strategy prepares and validates it."""

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        """Raise ApiError to reject the object as it would be stored. For DELETE, `obj` is the object to
        delete."""

    def handles(self, operation: str, storage: str, subresource: bool) -> bool:
        return (
            operation in self.operations
            and (not self.storages or storage in self.storages)
            and (self.subresources or not subresource)
        )


_Chosen = tuple[AdmissionPlugin, Presence | None]


class Admission:
    """Runs plugins in order."""

    def __init__(self, plugins: Sequence[AdmissionPlugin]) -> None:
        self._plugins = tuple(plugins)
        self._admitting: dict[tuple[str, str, bool], list[_Chosen]] = {}
        self._validating: dict[tuple[str, str, bool], list[_Chosen]] = {}

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        key = (write.operation, write.resource.storage, bool(write.subresource))
        chosen = self._admitting.get(key)
        if chosen is None:
            chosen = self._admitting[key] = self._chosen("admit", write.api.store, *key)
        for plugin, needed in chosen:
            if needed is None or needed.any:
                plugin.admit(write, obj, old)
        again = write.reinvocation
        if again is not None and again.required:
            again.running = True
            for plugin, _ in chosen:
                plugin.admit(write, obj, old)

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        key = (write.operation, write.resource.storage, bool(write.subresource))
        chosen = self._validating.get(key)
        if chosen is None:
            chosen = self._validating[key] = self._chosen("validate", write.api.store, *key)
        for plugin, needed in chosen:
            if needed is None or needed.any:
                plugin.validate(write, obj, old)

    def _chosen(
        self, method: str, store: Store, operation: str, storage: str, subresource: bool
    ) -> list[_Chosen]:
        """Return the plugins that handle such writes."""
        return [
            (plugin, store.presence(plugin.needs) if plugin.needs else None)
            for plugin in self._plugins
            if getattr(type(plugin), method) is not getattr(AdmissionPlugin, method)
            and plugin.handles(operation, storage, subresource)
        ]
