"""What connects one run of a container to the network of the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mooring.sandbox.programs.probing import Result
from mooring.sandbox.programs.program import Outcome
from mooring.sandbox.programs.wire import Answers, Client, Wire

_MOST_LINES: Final = 500  # that servers have logged, of a run
_SECONDS_PER_UNIT: Final = 15e-6
"""How long a program that polls waits at least for each unit of work: it takes at most 2 % of the time."""


class Connection:
    """Without a client, there is no network."""

    __slots__ = ("_answers", "_exit", "_lines", "_outcome", "client", "probed", "resumes_at", "server_state")

    def __init__(self, client: Client | None = None) -> None:
        self.client = client
        self.server_state: dict[str, Any] = {}
        self.probed: dict[str, list[Result]] = {}
        """What probes by HTTP have found, by what they ask for."""
        self.resumes_at: float | None = None
        """When the program asks for what is not known yet."""
        self._answers = Answers()
        self._lines: tuple[tuple[float, str], ...] = ()
        self._outcome = Outcome(None)
        self._exit: tuple[float, int] | None = None

    def wire(self, now: float) -> Wire | None:
        """Return what a program asks by up to now."""
        return None if self.client is None else Wire(self.client, now, self._answers)

    def complete(self, outcome: Outcome, now: float, work: int) -> Outcome:
        """Return how a run goes with what its servers have been asked for."""
        self._outcome = outcome
        at = outcome.resumes_at
        self.resumes_at = None if at is None else max(at, now + work * _SECONDS_PER_UNIT)
        return self._completed()

    def log(self, lines: Iterable[tuple[float, str]]) -> Outcome:
        """Add to what is printed, at seconds from the start of the run."""
        self._lines = (*self._lines, *lines)[-_MOST_LINES:]
        return self._completed()

    def exit(self, seconds: float, code: int) -> Outcome:
        """End the run so many seconds after its start."""
        self._exit = seconds, code
        return self._completed()

    def _completed(self) -> Outcome:
        outcome = self._outcome
        if self._lines:
            output = sorted((*outcome.output, *self._lines), key=lambda line: line[0])
            outcome = outcome._replace(output=tuple(output))
        if self._exit is not None and (outcome.run_time is None or outcome.run_time > self._exit[0]):
            outcome = outcome._replace(run_time=self._exit[0], exit_code=self._exit[1])
        return outcome
