"""How much work programs may cause: they are run on the event loop of the whole cluster."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.programs.errors import ForeverError

MOST_WORK: Final = 50_000  # of one run; takes some 15 ms
PER_UNIT: Final = 256  # characters that are written at once for a unit


class Work:
    """The work that is left for programs. A unit is about what it takes to look at one word of a script."""

    def __init__(self) -> None:
        self.left = MOST_WORK

    @property
    def done(self) -> int:
        return MOST_WORK - self.left

    def spend(self, units: int) -> None:
        """Account for work. Raises ForeverError if it is too much: such a program is taken to run on."""
        self.left -= units
        if self.left < 0:
            raise ForeverError

    def copy(self, characters: int) -> None:
        """Account for text that is copied. Raises ForeverError."""
        self.spend(1 + characters // 32)
