"""Plugins of every kind that the framework treats differently: asked node by node, or kept by what they
depend on, with many reasons, with scores that are normalised, with hypothetical pods of their own."""

from __future__ import annotations

import numpy as np

from mooring.framework import (
    CacheKey,
    CycleState,
    IntArray,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    PreFilterResult,
    StateKey,
    Status,
    Verdicts,
    pending,
    refuse,
    skip,
    unresolvable,
    unschedulable,
    wait,
)
from mooring.runtime.engine_nodes import engine_nodes
from tests.state.objects import ZONE


class OddNode(Plugin):
    """Looks at one Node object at a time, and has a reason for each rank."""

    name = "OddNode"
    cache_key = CacheKey.NODE

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        rank = node.labels.get("rank")
        if rank is not None and pod.labels.get("tier") == "y":
            return unresolvable(f"node(s) had rank {rank}")
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return len(node.labels) * 7 + len(pod.labels)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        return scores - scores.min(initial=0) if len(scores) else scores


class OddPods(Plugin):
    """Looks at one node and its pods at a time; the reason tells how many there are."""

    name = "OddPods"
    cache_key = CacheKey.NODE_AND_PODS

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        alike = sum(other.labels == pod.labels for other in node.pods)
        if alike >= 2 and pod.labels.get("app") == "a":
            return unschedulable(f"node(s) had {alike} such pods", "and that is too many")
        if alike == 1 and pod.labels.get("tier") == "x":
            return pending("node(s) had one such pod")
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return max(0, 100 - 9 * len(node.pods))


class OddNodes(Plugin):
    """Looks at the Node objects of all nodes: how many there are in a node's zone."""

    name = "OddNodes"
    cache_key = CacheKey.ALL_NODES

    def _neighbours(self, nodes: Nodes) -> IntArray:
        ids = engine_nodes(nodes).whole.label(ZONE).ids
        return np.array([int((ids == zone).sum()) for zone in nodes.label(ZONE).ids.tolist()], np.int64)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        if pod.labels.get("app") != "b":
            return None
        crowded = self._neighbours(nodes) > 4
        return refuse(crowded, unschedulable("node(s) had too many neighbours")) if crowded.any() else None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        return np.minimum(self._neighbours(nodes) * 9, 100)


class OddTable(Plugin):
    """Looks at everything: the fullest node is refused. Counts its own pods for hypothetical ones."""

    name = "OddTable"
    cache_key = CacheKey.NONE
    KEY = StateKey[dict[str, int]]("pods by node")

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        if pod.labels.get("app") == "b":
            return skip()
        state.write(self.KEY, {node.name: len(node.pods) for node in nodes})
        if pod.labels.get("app") == "c":
            return PreFilterResult(frozenset(nodes.names[:3]) | {"n9"})
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        self._count(state, node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        self._count(state, node, -1)
        return None

    def _count(self, state: CycleState, node: NodeInfo, change: int) -> None:
        counts = state.read(self.KEY).copy()
        counts[node.name] += change
        state.write(self.KEY, counts)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        counts = state.read(self.KEY)
        if counts[node.name] > 3 and counts[node.name] == max(counts.values()):
            return unschedulable("node(s) had the most pods")
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        view = engine_nodes(nodes)
        return np.array([len(node.pods) for node in view.whole], np.int64)[view.rows]

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        return 100 - scores * 100 // max(int(scores.max(initial=1)), 1)


class OddPermit(Plugin):
    """Holds pods of one label back for two seconds, and refuses to reserve others where there are many."""

    name = "OddPermit"

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        node = self.handle.snapshot.node(node_name)
        if node is not None and len(node.pods) == 4:
            return unschedulable("four are unlucky")
        return None

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(2.0, "patience") if pod.labels.get("tier") == "x" else None


ODD_PLUGINS = (OddNode, OddPods, OddNodes, OddTable, OddPermit)
