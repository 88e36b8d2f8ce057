"""The pods that nodes have accepted."""

from __future__ import annotations

from typing import Final, NamedTuple

from mooring.sandbox.kubelet.admission import Needs
from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.kubelet.eviction import StorageLimits
from mooring.sandbox.kubelet.fleet import Machine
from mooring.sandbox.kubelet.scripts import Script
from mooring.sandbox.programs.sources import Tokens
from mooring.sandbox.programs.specs import PodRun

LEAST_GRACE: Final = 2.0
"""Seconds that containers have to stop, after hooks that took all the grace period, too."""


class Stopping(NamedTuple):
    """A pod whose containers are being stopped: since when, when their preStop hooks end, and how many
    seconds the containers take from then on."""

    began: float
    hooks_end: float
    seconds: float

    def stops_at(self, deadline: float) -> float:
        """Return when the containers have stopped by themselves."""
        return self._signalled_at(deadline) + self.seconds

    def ends_at(self, deadline: float) -> float:
        """Return when the containers have stopped, or are killed."""
        killed = max(self._signalled_at(deadline) + LEAST_GRACE, deadline)
        return min(self.stops_at(deadline), killed)

    def _signalled_at(self, deadline: float) -> float:
        return min(self.hooks_end, max(deadline, self.began))


class Guest:
    """A pod that a node has accepted, with its state on the node. Times are seconds since the epoch."""

    __slots__ = (
        "accepted", "eviction", "ip", "life", "machine", "needs", "run", "script", "stopping", "storage",
        "tokens",
    )  # fmt: skip

    def __init__(self, machine: Machine, needs: Needs, script: Script, accepted: float) -> None:
        self.machine = machine
        self.needs = needs
        self.script = script
        self.accepted = accepted
        self.life: PodLife | None = None  # until the pod is seen for the first time
        self.run: PodRun | None = None  # what its containers do, if that was read already
        self.stopping: Stopping | None = None
        self.storage: StorageLimits | None = None  # until a container starts
        self.eviction = ""  # why the pod is evicted
        self.ip = ""
        self.tokens: Tokens | None = None  # until a container may read them
