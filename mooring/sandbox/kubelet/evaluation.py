"""How runs of containers go: when they end and what they print, as far as that is known by now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.sandbox.kubelet.container_life import FOREVER, RUNNING, SHORTEST, ContainerLife
from mooring.sandbox.kubelet.probes import probe
from mooring.sandbox.kubelet.scripts import Script
from mooring.sandbox.kubelet.surroundings import Surroundings
from mooring.sandbox.programs.command_lines import runs_shell
from mooring.sandbox.programs.listeners import UNKNOWN
from mooring.sandbox.programs.program import Outcome, run_program
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.work import MOST_WORK, Work

_AT_ONCE: Final = Outcome(0.0)
_NOT_FOUND: Final = 127  # what shells end with after a command that they do not find
_UNKNOWN_INPUT: Final = (
    "cannot run the input: containers do not run in a sandbox cluster, and it cannot be emulated\n"
)


class Evaluation:
    """Evaluates the containers of one pod, whenever something happens that they may notice. `runs` takes what
    they print."""

    __slots__ = ("_runs", "_stale", "_surroundings", "_uid", "script", "work")

    def __init__(self, uid: str, script: Script, surroundings: Surroundings, runs: Runs) -> None:
        self._uid = uid
        self._surroundings = surroundings
        self._runs = runs
        self._stale: dict[ContainerLife, None] = {}  # those that are yet to be evaluated again
        self.script = script
        self.work = 0  # of this turn

    @property
    def must_yield(self) -> bool:
        """Whether programs have done so much work that others on the event loop are to have their turn."""
        return self.work > MOST_WORK // 4

    def evaluate(self, one: ContainerLife, now: float) -> None:
        """Compute how a run goes: when it ends, and what its probes find."""
        before = self.work
        one.outcome, is_known = self._outcome(one, now)
        work = Work()
        outcome = probe(one, one.outcome, self._sources(one), now, work, is_known=is_known)
        self.work += work.done
        one.outcome = one.connection.complete(outcome, now, self.work - before)
        if is_known:
            self.keep(one)

    def mark(self, containers: Iterable[ContainerLife]) -> None:
        """Mark containers that may see something else now, to be evaluated again."""
        self._stale |= dict.fromkeys(containers)

    def evaluate_stale(self, now: float) -> bool:
        """Evaluate what was marked; return whether nothing is left for the next turn."""
        while self._stale and not self.must_yield:
            one = next(iter(self._stale))
            del self._stale[one]
            if one.state == RUNNING:
                self.evaluate(one, now)
        return not self._stale

    def enter(self, one: ContainerLife, text: str | None, now: float) -> None:
        """Add to the input of a container, or close it if there is no text."""
        at = now - one.started
        one.stdin = one.stdin.close(at) if text is None else one.stdin.add(at, text)
        self.evaluate(one, now)
        self._stale.pop(one, None)

    def keep(self, one: ContainerLife) -> None:
        """Keep what a container prints."""
        self._runs.keep(self._uid, one.name, one.started, one.outcome)

    def _outcome(self, one: ContainerLife, now: float) -> tuple[Outcome, bool]:
        """Return how a run goes, and whether its program is known."""
        if one.is_ephemeral and one.spec is not None:
            usual = FOREVER if one.spec.stdin else _AT_ONCE  # a shell ends without input
        elif one.is_init:
            usual = FOREVER if one.is_sidecar else _AT_ONCE
        else:
            usual = Outcome(self.script.run_time, self.script.exit_code, listeners=UNKNOWN)
            if self.script.annotated:
                return usual, False
        if one.spec is None:
            return usual, False
        one.files.forget()
        work, wire = Work(), one.connection.wire(now)
        outcome = run_program(
            one.spec, self._sources(one), one.files, one.started, work, stdin=one.stdin, wire=wire
        )
        self.work += work.done
        if outcome is None and one.stdin.chunks and runs_shell(one.spec):
            return _unknown_input(now - one.started), True
        if outcome is None:
            return usual, False
        if one.is_init or one.is_ephemeral or outcome.run_time is None:
            return outcome, True
        return outcome._replace(run_time=max(outcome.run_time, SHORTEST)), True

    def _sources(self, one: ContainerLife) -> Sources:
        return one.sources or self._surroundings.sources


def _unknown_input(at: float) -> Outcome:
    """Return the end of a shell that a client has entered something in whose effect is not known."""
    return Outcome(max(at, SHORTEST), _NOT_FOUND, ((at, _UNKNOWN_INPUT),), errors=frozenset((0,)))
