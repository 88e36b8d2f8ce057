"""Placements: the sets of nodes among which a group of pods is scheduled as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mooring.framework.pod import GroupKey, PodInfo


class PodGroupInfo(NamedTuple):
    """A group in its scheduling cycle: the pods to be scheduled now, and those that already have a node."""

    key: GroupKey
    pods: Sequence[PodInfo]
    scheduled: Sequence[PodInfo]


class Placement(NamedTuple):
    """Nodes that the whole group may be scheduled on; `node_names` None: all nodes.

    Members are spread over as few of the `parts` as possible, in the order of their indexes. A group that
    fits into one part is placed by the parts of that part.
    """

    name: str
    node_names: frozenset[str] | None = None
    parts: tuple[Placement, ...] = ()


class Assignment(NamedTuple):
    """A pod and the node that it would get."""

    pod: PodInfo
    node_name: str


class PlacementPlan(NamedTuple):
    """A placement in which the group can be scheduled, and where its pods would go."""

    placement: Placement
    assignments: Sequence[Assignment]
