"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.objects import Node, Taint, Toleration
from mooring.api.tolerations import NO_SCHEDULE, tolerates
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import Nodes, Verdicts, refuse
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import unresolvable


class NodeUnschedulable(Plugin):
    """Refuses nodes with spec.unschedulable, unless the pod tolerates the taint that goes with it."""

    name = "NodeUnschedulable"
    cache_key = CacheKey.NODE

    UNSCHEDULABLE = "node(s) were unschedulable"
    TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        cordoned = nodes.unschedulable
        if not cordoned.any() or self._tolerated(pod.spec.tolerations):
            return None
        return refuse(cordoned, unresolvable(self.UNSCHEDULABLE))

    def _tolerated(self, tolerations: Iterable[Toleration]) -> bool:
        return any(tolerates(each, self.TAINT) for each in tolerations)

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, self._after_node_change)
        yield requeue_on(Resource.POD, Action.UPDATE_POD_TOLERATION, self._after_toleration_change)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        was_closed = old is None or old.spec.unschedulable
        return Hint.QUEUE if was_closed and not new.spec.unschedulable else Hint.SKIP

    def _after_toleration_change(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        return Hint.QUEUE if new.uid == pod.uid and self._tolerated(new.spec.tolerations) else Hint.SKIP
