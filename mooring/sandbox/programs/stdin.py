"""The standard input of a container: what clients that attach to it enter."""

from __future__ import annotations

from typing import Final, NamedTuple


class Stdin(NamedTuple):
    """What comes when, in seconds from the start of a run. `ends_at` is None while a client may enter
    more."""

    chunks: tuple[tuple[float, str], ...] = ()
    ends_at: float | None = 0.0

    def add(self, at: float, text: str) -> Stdin:
        return self._replace(chunks=(*self.chunks, (at, text)))

    def close(self, at: float) -> Stdin:
        return self._replace(ends_at=at)


EMPTY: Final = Stdin()
"""Of a container that has none."""
OPEN: Final = Stdin(ends_at=None)
