"""Extenders: services outside the scheduler that refuse, score, preempt and bind on its behalf.

They are asked after the profile's plugins. How they are reached is not known here (see `mooring.extender`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import IntArray
from mooring.framework.pod import PodInfo
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.runners import PluginError

SIGNED = "extender "  # and the extender's name: how an extender's refusals and scores are signed
SCALE = 10  # an extender's scores go from 0 to 10, a plugin's to 100


class ExtenderCallError(PluginError):
    """An extender could not be called, or its response is invalid."""


class Filtered(NamedTuple):
    """What an extender let pass, and what it said about nodes by name, of those it was asked about or not."""

    passed: npt.NDArray[np.intp]  # rows of the node table
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]  # no removal of other pods would help


class VictimsOnNode(NamedTuple):
    """Pods that would have to go from a node, and how many disruption budgets that violates."""

    pods: Sequence[PodInfo]
    pdb_violations: int


PodsOn = Callable[[str], Sequence[PodInfo] | None]
"""The pods on a node by its name; None where there is no such node."""


class Extender(Protocol):
    """One extender. What it is asked may be waited for; all but `is_interested` raise ExtenderCallError."""

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> int: ...
    @property
    def ignorable(self) -> bool:
        """Whether pods are scheduled without it where it fails."""
        ...

    @property
    def filters(self) -> bool: ...
    @property
    def prioritizes(self) -> bool: ...
    @property
    def preempts(self) -> bool: ...
    @property
    def binds(self) -> bool: ...
    def is_interested(self, pod: PodInfo) -> bool: ...
    def filter(self, pod: PodInfo, nodes: EngineNodes) -> Filtered: ...
    def prioritize(self, pod: PodInfo, nodes: EngineNodes) -> IntArray:
        """A score for each of the nodes, in their order."""
        ...

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], pods_on: PodsOn
    ) -> Mapping[str, VictimsOnNode]:
        """The nodes by name that remain, with at least one victim on each, not always the same."""
        ...

    async def bind(self, pod: PodInfo, node_name: str) -> None: ...


def signature(extender: Extender) -> str:
    """Return the name of an extender in records that list plugins."""
    return SIGNED + extender.name
