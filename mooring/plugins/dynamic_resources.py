"""DynamicResources: resource claims of pods, as far as they are supported, which is not yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import EventHint
from mooring.framework.nodes import IntArray, Nodes, Verdicts
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, error, skip, unresolvable, unschedulable
from mooring.plugins.args import DynamicResourcesArgs
from mooring.plugins.arithmetic import default_normalize
from mooring.runtime.engine_state import engine_state


class DynamicResources(Plugin[DynamicResourcesArgs]):
    """Takes part where kube-scheduler's plugin does, so that messages and scores of pods without claims are
    the same. A pod with claims is refused: placing it as if it had none would start it without devices."""

    name = "DynamicResources"
    cache_key = CacheKey.NODE

    NOT_SUPPORTED = "resource claims are not supported yet"
    NOT_FOUND = "not found"
    NOTHING_TO_DEALLOCATE = "no new claims to deallocate"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return None

    def events_to_register(self) -> Iterable[EventHint]:
        return ()  # no event makes a refused pod schedulable

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return unresolvable(self.NOT_SUPPORTED) if pod.spec.resource_claims else skip(shape=True)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        return None

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> Status:
        if self.name not in engine_state(state).skip_filter and not pod.spec.resource_claims:
            # A PreFilter plugin before this one ended the cycle.
            return error(self.NOT_FOUND)
        return unschedulable(self.NOTHING_TO_DEALLOCATE)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        return np.zeros(len(nodes), np.int64)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        return default_normalize(scores)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        return None

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None
