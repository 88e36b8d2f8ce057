"""Outcomes of creating objects, kept so that replicas of the same spec need not be processed again."""

from __future__ import annotations

from typing import Final, NamedTuple

from mooring.sandbox.apiserver.objects import Tree

_LIMIT: Final = 1024


class Outcome(NamedTuple):
    """How an object with some spec was stored."""

    rest: bytes
    """The stored bytes after the metadata."""
    fields: tuple[str, ...]
    """Values of the selectable fields."""
    manager: Tree | None
    """The writer's entry in managedFields."""
    stamp: tuple[int, ...]
    """How far the tables that affect the outcome had been written."""


class Outcomes:
    """Outcomes of one kind, by what decides them; `tables` affect them in addition to the spec."""

    def __init__(self, *tables: str) -> None:
        self.tables = tables
        self.valid_metadata: Tree | None = None
        """The metadata of the last replica that was validated."""
        self._outcomes: dict[tuple[object, ...], Outcome | None] = {}

    def get(self, key: tuple[object, ...]) -> Outcome | None:
        return self._outcomes.get(key)

    def is_repeated(self, key: tuple[object, ...]) -> bool:
        """Whether this is not the first call for a key: most specs are never seen again."""
        if key in self._outcomes:
            return True
        self.put(key, None)
        return False

    def put(self, key: tuple[object, ...], outcome: Outcome | None) -> None:
        if len(self._outcomes) >= _LIMIT:
            self._outcomes.clear()
        self._outcomes[key] = outcome
