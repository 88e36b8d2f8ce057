"""What happened to each pod of a run, in columns."""

from __future__ import annotations

from array import array
from enum import IntEnum
from math import nan

import numpy as np
import numpy.typing as npt

from mooring.simulate.arrivals import FloatArray


class Outcome(IntEnum):
    """How a pod ended, or where it was when the run did."""

    PENDING = 0  # not bound when the run ended
    RUNNING = 1  # bound, not finished when the run ended
    FINISHED = 2
    EVICTED = 3  # by preemption
    LOST = 4  # its node failed or was removed
    REJECTED = 5  # unschedulable at its only attempt
    DELETED = 6  # by an event of the scenario

    @property
    def text(self) -> str:
        return self.name.lower()


class PodLog:
    """One row per pod. A pod that replaces an evicted one has a row of its own."""

    __slots__ = (
        "attempts",
        "bound",
        "created",
        "ended",
        "first_attempt",
        "names",
        "node",
        "outcome",
        "reason",
        "reasons",
        "replaces",
        "run_time",
        "started",
        "template",
    )

    def __init__(self) -> None:
        self.names: list[str] = []
        self.template = array("i")
        self.created = array("d")
        self.run_time = array("d")
        self.first_attempt = array("d")
        self.bound = array("d")
        self.node = array("i")
        self.started = array("d")
        self.ended = array("d")
        self.attempts = array("i")
        self.outcome = bytearray()
        self.reason = array("i")
        self.replaces = array("i")  # the row of the evicted pod; -1: none
        self.reasons: dict[str, int] = {"": 0}  # the plugins that rejected the last failed attempt

    def __len__(self) -> int:
        return len(self.created)

    def add(self, name: str, template: int, run_time: float, now: float, replaces: int = -1) -> int:
        row = len(self.created)
        self.names.append(name)
        self.template.append(template)
        self.created.append(now)
        self.run_time.append(run_time)
        self.first_attempt.append(nan)
        self.bound.append(nan)
        self.node.append(-1)
        self.started.append(nan)
        self.ended.append(nan)
        self.attempts.append(0)
        self.outcome.append(Outcome.PENDING)
        self.reason.append(0)
        self.replaces.append(replaces)
        return row

    def attempted(self, row: int, now: float) -> None:
        if not self.attempts[row]:
            self.first_attempt[row] = now
        self.attempts[row] += 1

    def rejected(self, row: int, plugins: list[str]) -> None:
        text = "+".join(plugins)
        reason = self.reasons.get(text)
        if reason is None:
            reason = self.reasons[text] = len(self.reasons)
        self.reason[row] = reason

    def bind(self, row: int, node: int, now: float, started: float) -> None:
        self.bound[row] = now
        self.node[row] = node
        self.started[row] = started
        self.outcome[row] = Outcome.RUNNING
        self.reason[row] = 0

    def end(self, row: int, outcome: Outcome, now: float) -> None:
        self.ended[row] = now
        self.outcome[row] = outcome

    def column(self, name: str) -> FloatArray:
        """A column of times as an array of its own."""
        return np.array(getattr(self, name), np.float64)

    def integers(self, name: str) -> npt.NDArray[np.int64]:
        values = getattr(self, name)
        if isinstance(values, bytearray):
            return np.frombuffer(bytes(values), np.uint8).astype(np.int64)
        return np.array(values, np.int64)
