"""The nodes of a run."""

from __future__ import annotations

from math import inf

from mooring.api.objects import Node


class NodeLog:
    """When each node was there."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.added: list[float] = []
        self.removed: list[float] = []
        self.objects: list[Node] = []
        self._row: dict[str, int] = {}

    def row(self, name: str) -> int:
        return self._row[name]

    def add(self, node: Node, now: float) -> None:
        """A node appears; one that is known changes."""
        row = self._row.get(node.name)
        if row is not None:
            self.objects[row] = node
            return
        self._row[node.name] = len(self.names)
        self.names.append(node.name)
        self.added.append(now)
        self.removed.append(inf)
        self.objects.append(node)

    def remove(self, name: str, now: float) -> None:
        row = self._row.pop(name, None)
        if row is not None:
            self.removed[row] = now

    def get(self, name: str) -> Node | None:
        row = self._row.get(name)
        return None if row is None else self.objects[row]

    def present(self) -> list[Node]:
        return [self.objects[row] for row in self._row.values()]
