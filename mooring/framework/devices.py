"""Devices as plugins see them: on a node, allocated to a pod, and chosen for a pod in this cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import NodeInfo
from mooring.framework.pod import PodInfo


class NodeDevice(NamedTuple):
    """A device of a ResourceSlice. `claim` is the "namespace/name" of the claim that it is allocated to."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, int | bool | str]
    capacity: Mapping[str, str]
    claim: str = ""


class Devices(Protocol):
    """The devices of the cluster."""

    def on_node(self, node: NodeInfo) -> Sequence[NodeDevice]:
        """Return all devices that the node can use, in the order in which they are allocated."""
        ...

    def allocated(self, pod: PodInfo) -> Mapping[str, Sequence[NodeDevice]]:
        """Return the devices of the pod's claims that are allocated, by entry of `spec.resourceClaims`."""
        ...

    def chosen(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Sequence[NodeDevice]:
        """Return the devices that the pod would get on a node that passed the filters, in this cycle. Devices
        of claims that are already allocated are included."""
        ...
