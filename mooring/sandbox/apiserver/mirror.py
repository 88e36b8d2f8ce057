"""What plugins know about other objects, without reading them at every write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from mooring.sandbox.apiserver.store.record import Event
    from mooring.sandbox.apiserver.verbs.api import Api

Known = TypeVar("Known")


class Mirror(Generic[Known]):
    """Something that follows from all objects of a table, found out anew once the table has changed.

    Meant for kinds of which there are few and which seldom change, such as priority classes.
    """

    def __init__(self, storage: str, read: Callable[[Api], Known]) -> None:
        self._storage = storage
        self._read = read
        self._api: Api | None = None
        self._known: Known
        self._stale = True

    def get(self, api: Api) -> Known:
        if self._stale or self._api is not api:
            if self._api is not api:
                api.store.table(self._storage).listeners.append(self._changed)
                self._api = api
            self._stale = False
            self._known = self._read(api)
        return self._known

    def _changed(self, event: Event) -> None:
        self._stale = True
