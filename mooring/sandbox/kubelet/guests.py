"""The pods that nodes have accepted."""

from __future__ import annotations

from mooring.sandbox.kubelet.admission import Needs
from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.kubelet.fleet import Machine
from mooring.sandbox.kubelet.scripts import Script
from mooring.sandbox.programs.sources import Tokens
from mooring.sandbox.programs.specs import PodRun


class Guest:
    """A pod that a node has accepted, and what the node knows of it. Times are seconds since the epoch."""

    __slots__ = ("accepted", "ip", "life", "machine", "needs", "run", "script", "stops", "tokens")

    def __init__(self, machine: Machine, needs: Needs, script: Script, accepted: float) -> None:
        self.machine = machine
        self.needs = needs
        self.script = script
        self.accepted = accepted
        self.life: PodLife | None = None  # until the pod is seen for the first time
        self.run: PodRun | None = None  # what its containers do, if that was read already
        self.stops: float | None = None
        self.ip = ""
        self.tokens: Tokens | None = None  # until a container may read them
