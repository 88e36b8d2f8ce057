"""NodeName: a pod that names its node goes nowhere else."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import Action, EventHint, Resource, requeue_on
from mooring.framework.nodes import Nodes, Verdicts, refuse
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import unresolvable


class NodeName(Plugin):
    """Refuses all nodes but spec.nodeName, where the pod has one.

    A pod with a node name counts as placed and is not queued, so this speaks up only when a pod is asked
    about by itself.
    """

    name = "NodeName"
    cache_key = CacheKey.NODE

    OTHER_NODE = "node(s) didn't match the requested node name"

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        if not pod.node_name:
            return None
        refused = np.ones(len(nodes), np.bool_)
        position = nodes.index(pod.node_name)
        if position is not None:
            refused[position] = False
        return refuse(refused, unresolvable(self.OTHER_NODE))

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.NODE, Action.ADD)
