"""The cluster as seen by the scheduler: nodes, pods on them, and assumed pods.

    absent ──assume──▶ assumed ──add_pod──▶ added ──remove_pod──▶ absent
       │                  └──────forget──────────────────────────────▲
       └────────────────add_pod──────────▶ added

A pod whose node is not known waits as a ghost and counts nowhere until the node appears.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from mooring.api.objects import Node, Pod
from mooring.framework.nodes import IntArray
from mooring.framework.pod import GroupKey, PodInfo, Shape, Shapes
from mooring.state.node_info import NodeRow
from mooring.state.table import NodeTable
from mooring.state.view import NodeView


class ClusterState:
    """Keeps the node table in step with what is seen and what is assumed. Also the plugins' Snapshot:
    a scheduling cycle runs without interruption, so the present is its snapshot."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self._nodes = NodeView(self.table, slice(0, 0))
        self.shapes = Shapes()
        self._placed: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()  # the uids of those that the API server has not confirmed
        self._lifted: set[str] = set()  # the assumed ones among those that are lifted
        self._ghosts: dict[str, dict[str, PodInfo]] = {}  # node name → uid → pod
        self.group_of: Callable[[Pod], GroupKey | None] | None = None  # None: without group scheduling
        self.placed_by_group: Counter[GroupKey] = Counter()

    # ---- snapshot

    @property
    def nodes(self) -> NodeView:
        nodes, count = self._nodes, len(self.table.nodes)
        if nodes.length != count:
            nodes = self._nodes = NodeView(self.table, slice(0, count))
        return nodes

    def node(self, name: str) -> NodeRow | None:
        row = self.table.row_of.get(name)
        return None if row is None else self.table.nodes[row]

    def pods(self) -> Iterator[PodInfo]:
        return self.table.pods()

    def claim_users(self, claim: str) -> int:
        return self.table.claim_users.get(claim, 0)

    def has_pods_below(self, priority: int) -> bool:
        return any(other < priority for other in self.table.priorities)

    def info(self, pod: Pod) -> PodInfo:
        """The pod with its shape, shared with its equals."""
        info = PodInfo.of(pod, self.shapes.of(pod))
        if self.group_of is not None:
            info.group = self.group_of(pod)
        return info

    # ---- nodes

    def add_node(self, node: Node) -> None:
        current = self.node(node.name)
        if current is not None:
            self.update_node(node)
            return
        info = self.table.add_node(node)
        for pod in self._ghosts.pop(node.name, {}).values():
            self.table.add_pod(info, pod)

    def update_node(self, node: Node) -> bool:
        """Take over a node's new version; whether anything that scheduling can see has changed."""
        info = self.node(node.name)
        if info is None:
            self.add_node(node)
            return True
        if _same_node(info.node, node):
            info.set_node(node)
            return False
        self.table.update_node(info, node)
        return True

    def remove_node(self, name: str) -> None:
        info = self.node(name)
        if info is None:
            return
        pods = info.pods
        for pod in pods:
            self.table.remove_pod(info, pod)
        if pods:
            self._ghosts[name] = {pod.uid: pod for pod in pods}
        self.table.remove_node(info)

    def touch(self, name: str) -> None:
        """Something about a node's pods changed that the table does not hold, such as a nomination."""
        row = self.table.row_of.get(name)
        if row is not None:
            self.table.pod_log.add(row)

    # ---- pods

    def placed(self, uid: str) -> PodInfo | None:
        return self._placed.get(uid)

    def node_of(self, uid: str) -> str:
        return self._placed[uid].node_name

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def assumed_count(self) -> int:
        return len(self._assumed)

    def __len__(self) -> int:
        return len(self._placed)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on its chosen node before the API server has confirmed it."""
        if pod.uid in self._placed:
            raise ValueError(f"pod {pod.uid}({pod.key}) is in the cache, so can't be assumed")
        self._place(pod if pod.node_name == node_name else pod.placed_on(node_name))
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """Take back an assumption; nothing happens to a pod that is not assumed."""
        if uid in self._assumed:
            self._unplace(uid)

    def add_pod(self, pod: PodInfo) -> None:
        """A pod is on a node, says the API server: new to us, or one we assumed there (or elsewhere)."""
        placed = self._placed.get(pod.uid)
        if placed is None:
            self._place(pod)
        elif placed.node_name != pod.node_name:
            self._unplace(pod.uid)
            self._place(pod)
        else:
            self._replace(placed, pod)
            self._assumed.discard(pod.uid)

    def update_pod(self, pod: PodInfo) -> None:
        self.add_pod(pod)

    def remove_pod(self, uid: str) -> None:
        if uid in self._placed:
            self._unplace(uid)

    def lift(self, uid: str) -> PodInfo:
        """Take a pod off its node to see what would fit without it; `put_back` ends this."""
        pod, assumed = self._placed[uid], uid in self._assumed
        self._unplace(uid)
        if assumed:
            self._lifted.add(uid)
        return pod

    def put_back(self, pod: PodInfo) -> None:
        self._place(pod)
        if pod.uid in self._lifted:
            self._lifted.discard(pod.uid)
            self._assumed.add(pod.uid)

    @contextmanager
    def filled(self, shape: Shape, counts: IntArray) -> Iterator[None]:
        """While this lasts, count so many more pods of a shape on each row, as far as resources go."""
        rows = counts.nonzero()[0]
        taken = np.outer(self.table.footprint(shape).vector, counts[rows])
        self.table.add_amounts(rows, taken)
        try:
            yield
        finally:
            self.table.add_amounts(rows, -taken)

    def _place(self, pod: PodInfo) -> None:
        self._placed[pod.uid] = pod
        if pod.group is not None:
            self.placed_by_group[pod.group] += 1
        info = self.node(pod.node_name)
        if info is None:
            self._ghosts.setdefault(pod.node_name, {})[pod.uid] = pod
        else:
            self.table.add_pod(info, pod)

    def _unplace(self, uid: str) -> None:
        self._assumed.discard(uid)
        pod = self._placed.pop(uid)
        if pod.group is not None:
            self._count_unplaced(pod.group)
        info = self.node(pod.node_name)
        if info is not None:
            self.table.remove_pod(info, pod)
            return
        ghosts = self._ghosts[pod.node_name]
        del ghosts[uid]
        if not ghosts:
            del self._ghosts[pod.node_name]

    def _count_unplaced(self, group: GroupKey) -> None:
        self.placed_by_group[group] -= 1
        if not self.placed_by_group[group]:
            del self.placed_by_group[group]

    def _replace(self, old: PodInfo, new: PodInfo) -> None:
        self._placed[new.uid] = new
        info = self.node(new.node_name)
        if info is None:
            self._ghosts[new.node_name][new.uid] = new
        else:
            self.table.replace_pod(info, old, new)


def _same_node(old: Node, new: Node) -> bool:
    """Whether nothing changed that a plugin can see; heartbeats are not seen."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.status.allocatable == new.status.allocatable
        and old.status.capacity == new.status.capacity
        and old.status.images == new.status.images
        and old.status.declared_features == new.status.declared_features
        and [(c.type, c.status) for c in old.status.conditions]
        == [(c.type, c.status) for c in new.status.conditions]
    )
