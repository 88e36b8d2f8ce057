"""Probes: functions of the user's that measure the cluster after each arrival."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from mooring.simulate.engine import CoreRun

Probe = Callable[[CoreRun], Mapping[str, float]]
"""Numbers by name, of the run as it is now."""


def find_probe(text: str, folder: Path) -> Callable[..., Probe]:
    """The function or class of MODULE:NAME; called once per run, it gives the probe. Raises ValueError."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise ValueError(f'expected MODULE:NAME, found "{text}"')
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    try:
        factory: Callable[..., Probe] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{text}: {error}") from None
    return factory


class Sampler:
    """Calls probes after every instant at which a pod arrived, and keeps what they say."""

    def __init__(self, probes: list[Probe]) -> None:
        self._probes = probes
        self._arrived = 0
        self.columns: dict[str, list[float]] = {}

    def settled(self, run: CoreRun) -> None:
        if run.arrived == self._arrived:
            return
        self._arrived = run.arrived
        self._put("time", run.clock.now)
        self._put("arrived", run.arrived)
        for probe in self._probes:
            for name, value in probe(run).items():
                self._put(name, float(value))

    def _put(self, name: str, value: float) -> None:
        self.columns.setdefault(name, []).append(value)
