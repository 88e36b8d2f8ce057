"""TaintToleration: taints keep pods off nodes, or make the nodes less welcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mooring.api.objects import Node, Taint, Toleration
from mooring.api.tolerations import PREFER_NO_SCHEDULE, Tolerations, find_untolerated
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import IntArray, Nodes, Verdicts, refuse
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, unresolvable
from mooring.plugins.arithmetic import default_normalize
from mooring.plugins.matching import spread
from mooring.runtime.runners import PluginError


class TaintToleration(Plugin):
    """Refuses nodes with a NoSchedule or NoExecute taint that the pod does not tolerate, and prefers nodes
    with fewer untolerated PreferNoSchedule taints. Works per distinct list of taints."""

    name = "TaintToleration"
    cache_key = CacheKey.NODE

    UNTOLERATED = "node(s) had untolerated taint(s)"
    PRE_SCORE_KEY = StateKey[list[Toleration]]("PreScoreTaintToleration")

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        tolerations = pod.spec.tolerations
        refused = spread(nodes.taints, lambda taints: _untolerated(taints, tolerations), np.bool_)
        return refuse(refused, unresolvable(self.UNTOLERATED)) if refused.any() else None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        preferring = [each for each in pod.spec.tolerations if each.effect in ("", PREFER_NO_SCHEDULE)]
        state.write(self.PRE_SCORE_KEY, preferring)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        tolerations = state.get(self.PRE_SCORE_KEY)
        if tolerations is None:
            key = self.PRE_SCORE_KEY.name
            raise PluginError(self.name, f'failed to read "{key}" from cycleState: not found')
        return spread(nodes.taints, lambda taints: _count_disliked(taints, tolerations), np.int64)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        return default_normalize(scores, reverse=True)

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, self._after_node_change)
        yield requeue_on(Resource.POD, Action.UPDATE_POD_TOLERATION, self._after_toleration_change)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        tolerations = pod.spec.tolerations
        was_closed = old is None or _untolerated(old.spec.taints, tolerations)
        return Hint.QUEUE if was_closed and not _untolerated(new.spec.taints, tolerations) else Hint.SKIP

    def _after_toleration_change(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP


def _untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    return find_untolerated(taints, tolerations) is not None


def _count_disliked(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> int:
    """How many PreferNoSchedule taints none of the tolerations covers."""
    index = Tolerations(tolerations)
    return sum(taint.effect == PREFER_NO_SCHEDULE and index.find(taint) is None for taint in taints)
