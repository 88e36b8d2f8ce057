"""Room for what programs write: none of them fills the memory of the process."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.programs.errors import UnknownProgramError

MOST_OF_POD: Final = 16 * 1024 * 1024  # bytes of all versions of its files
MOST_OF_CLUSTER: Final = 256 * 1024 * 1024  # of all pods, nodes and claims


class Space:
    """So many bytes, and no more than `parent` has left."""

    def __init__(self, most: int, parent: Space | None = None) -> None:
        self._most = most
        self._parent = parent
        self.used = 0

    def take(self, size: int) -> None:
        """Raises UnknownProgramError where there is too little left."""
        if self.used + size > self._most:
            raise UnknownProgramError("too much is written")
        if self._parent is not None:
            self._parent.take(size)
        self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size
        if self._parent is not None:
            self._parent.give_back(size)

    def close(self) -> None:
        """Give everything back: what it is for is gone."""
        if self._parent is not None:
            self._parent.give_back(self.used)
            self._parent = None
