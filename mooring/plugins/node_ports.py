"""NodePorts: a host port is used once per node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import Nodes, Verdicts, refuse
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status, skip, unschedulable
from mooring.runtime.runners import PluginError

ANY_IP = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class PortConflict:
    """Pods that hold a host port which this one would collide with.

    0.0.0.0 is all addresses: wanting it collides with any holder, and its holder with any wish.
    """

    ip: str
    protocol: str
    port: int

    count_terminating = True  # the port is free only when the pod is gone

    def matches(self, shape: Shape) -> bool:
        return any(
            port == self.port and protocol == self.protocol and (ip == self.ip or ANY_IP in (ip, self.ip))
            for ip, protocol, port in shape.host_ports
        )


class NodePorts(Plugin):
    """Refuses nodes where another pod holds a host port that the pod wants."""

    name = "NodePorts"
    cache_key = CacheKey.NODE_AND_PODS

    TAKEN = "node(s) didn't have free ports for the requested pod ports"
    PRE_FILTER_KEY = StateKey[list[PortConflict]]("PreFilterNodePorts")

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not pod.shape.host_ports:
            return skip(shape=True)
        state.write(self.PRE_FILTER_KEY, state.cached(self.PRE_FILTER_KEY, lambda: _conflicts(pod)))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        conflicts = state.get(self.PRE_FILTER_KEY)
        if conflicts is None:
            raise PluginError(self.name, f'reading "{self.PRE_FILTER_KEY.name}" from cycleState: not found')
        holders = nodes.count(conflicts[0])
        for conflict in conflicts[1:]:
            holders = holders + nodes.count(conflict)
        taken = holders > 0
        return refuse(taken, unschedulable(self.TAKEN)) if taken.any() else None

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.POD, Action.DELETE, self._after_pod_delete)
        yield requeue_on(Resource.NODE, Action.ADD)

    def _after_pod_delete(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        had_place = old.node_name or old.status.nominated_node_name
        freed = had_place and any(conflict.matches(old.shape) for conflict in _conflicts(pod))
        return Hint.QUEUE if freed else Hint.SKIP


def _conflicts(pod: PodInfo) -> list[PortConflict]:
    return [PortConflict(*port) for port in dict.fromkeys(pod.shape.host_ports)]
