"""The standard input of a container: what clients that attach to it enter."""

from __future__ import annotations

from typing import Final, NamedTuple

MOST: Final = 512 * 1024  # characters
_PER_CHUNK: Final = 256  # characters that a chunk costs in addition


class Stdin(NamedTuple):
    """What comes when, in seconds from the start of a run. `ends_at` is None while a client may enter more.
    The program reads no more than MOST: what is entered then waits, as in a pipe, and so does the end."""

    chunks: tuple[tuple[float, str], ...] = ()
    ends_at: float | None = 0.0
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.size > MOST

    def add(self, at: float, text: str) -> Stdin:
        if self.is_full:
            return self
        size = self.size + len(text) + _PER_CHUNK
        chunks = self.chunks if size > MOST else (*self.chunks, (at, text))
        return Stdin(chunks, self.ends_at, size)

    def close(self, at: float) -> Stdin:
        return self if self.is_full else self._replace(ends_at=at)


EMPTY: Final = Stdin()
"""Of a container that has none."""
OPEN: Final = Stdin(ends_at=None)
