"""The size and the conditions of a run."""

from __future__ import annotations

import random

from tests.faults.faults import OF_LEADERS, OF_THE_DISK, THEMES


class Shape:
    """The size and the conditions of a run."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(f"{seed} shape")
        self.theme = chance.choice(THEMES)
        self.nodes = chance.randint(3, 6)
        self.replicas = chance.choice((2, 2, 3) if OF_LEADERS.intersection(self.theme) else (1, 2, 2, 3))
        self.slowest = chance.choice((0.002, 0.02, 0.2))  # seconds of latency
        self.window = chance.choice((20, 200, 10_000))  # changes that the server keeps for watches
        self.durable = bool(OF_THE_DISK.intersection(self.theme)) or chance.random() < 0.25
        self.extenders = chance.choice(((), (), (False,), (True, False)))  # whether each can be ignored
        self.skews = [chance.choice((0.0, 0.0, -3600.0, 45.0)) for _ in range(self.replicas)]
        self.changes_pods = seed % 5 == 1  # their resources and claims; others keep the histories they had
        self.rates = [chance.choice((1.0, 1.0, 0.98, 1.02)) for _ in range(self.replicas)]
