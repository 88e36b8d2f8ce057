"""NodePorts: a host port is used once per node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import Nodes, Verdicts, refuse
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status, skip, unschedulable
from mooring.runtime.runners import PluginError

ANY_IP = "0.0.0.0"


class HostPorts(NamedTuple):
    """The host ports of pods of a shape: with their addresses, and without."""

    sockets: frozenset[tuple[str, str, int]]
    ports: frozenset[tuple[str, int]]

    @classmethod
    def of(cls, shape: Shape) -> HostPorts:
        held: HostPorts | None = shape.derived.get(HostPorts)
        if held is None:
            sockets = frozenset(shape.host_ports)
            held = shape.derived[HostPorts] = cls(sockets, frozenset(each[1:] for each in sockets))
        return held

    def collide(self, other: HostPorts) -> bool:
        """Whether one node cannot have both. 0.0.0.0 is all addresses."""
        few, many = (self, other) if len(self.sockets) < len(other.sockets) else (other, self)
        return any(
            (protocol, port) in many.ports
            and (
                ip == ANY_IP
                or (ip, protocol, port) in many.sockets
                or (ANY_IP, protocol, port) in many.sockets
            )
            for ip, protocol, port in few.sockets
        )


@dataclass(frozen=True, slots=True)
class PortConflict:
    """Pods that hold a host port which one of these would collide with: one count for all the ports of a pod,
    which may have thousands."""

    ports: HostPorts

    count_terminating = True  # the port is free only when the pod is gone

    def matches(self, shape: Shape) -> bool:
        return bool(shape.host_ports) and self.ports.collide(HostPorts.of(shape))


class NodePorts(Plugin):
    """Refuses nodes where another pod holds a host port that the pod wants."""

    name = "NodePorts"
    cache_key = CacheKey.NODE_AND_PODS

    TAKEN = "node(s) didn't have free ports for the requested pod ports"
    PRE_FILTER_KEY = StateKey[PortConflict]("PreFilterNodePorts")

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not pod.shape.host_ports:
            return skip(shape=True)
        state.write(self.PRE_FILTER_KEY, state.cached(self.PRE_FILTER_KEY, lambda: _conflict(pod)))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        conflict = state.get(self.PRE_FILTER_KEY)
        if conflict is None:
            raise PluginError(self.name, f'reading "{self.PRE_FILTER_KEY.name}" from cycleState: not found')
        taken = nodes.count(conflict) > 0
        return refuse(taken, unschedulable(self.TAKEN)) if taken.any() else None

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.POD, Action.DELETE, self._after_pod_delete)
        yield requeue_on(Resource.NODE, Action.ADD)

    def _after_pod_delete(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        had_place = old.node_name or old.status.nominated_node_name
        freed = had_place and _conflict(pod).matches(old.shape)
        return Hint.QUEUE if freed else Hint.SKIP


def _conflict(pod: PodInfo) -> PortConflict:
    return PortConflict(HostPorts.of(pod.shape))
