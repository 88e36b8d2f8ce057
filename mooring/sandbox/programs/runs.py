"""What containers have printed, as their nodes know it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from mooring.api.times import format_time
from mooring.sandbox.programs.program import Outcome

MOST: Final = 32 * 1024 * 1024  # characters, of all containers together
_LINE: Final = 100  # characters that a line costs in addition


class Run(NamedTuple):
    """One run of a container. `started` is in seconds since the epoch."""

    started: float
    outcome: Outcome

    @property
    def size(self) -> int:
        return sum(len(text) + _LINE for _, text in self.outcome.output)


class Runs:
    """The last two runs of each container. The oldest are forgotten if there are too many; their logs are
    then computed from their commands, as far as those say it all."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, str], list[tuple[Run, int]]] = OrderedDict()
        """With the size of each, which is long to count."""
        self._size = 0

    def keep(self, uid: str, container: str, started: float, outcome: Outcome) -> None:
        """Keep a run, in the place of what was known of it before."""
        if not outcome.output:
            return
        before = self._runs.pop((uid, container), [])
        run = Run(started, outcome)
        after = [*(one for one in before if one[0].started != started), (run, run.size)][-2:]
        self._runs[uid, container] = after
        self._size += sum(size for _, size in after) - sum(size for _, size in before)
        while self._size > MOST:
            _, dropped = self._runs.popitem(last=False)
            self._size -= sum(size for _, size in dropped)

    def find(self, uid: str, container: str, started_at: str) -> Run | None:
        """Return the run that started in a second."""
        runs = self._runs.get((uid, container), ())
        return next((one for one, _ in reversed(runs) if format_time(one.started) == started_at), None)

    def forget(self, uid: str, containers: list[str]) -> None:
        """Forget a pod."""
        for container in containers:
            for _, size in self._runs.pop((uid, container), ()):
                self._size -= size
