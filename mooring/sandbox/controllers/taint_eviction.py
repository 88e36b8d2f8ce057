"""Taint eviction: pods leave nodes with NoExecute taints that they do not tolerate, at once or when they have
tolerated them for as long as they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mooring.api.kinds import NODES, PODS
from mooring.api.objects import Node, Pod, Taint, Toleration
from mooring.api.tolerations import NO_EXECUTE, Tolerations
from mooring.client.api_errors import ClusterError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.placement import disrupt, index_by_node, pods_on


class _Eviction(NamedTuple):
    uid: str
    at: float


class TaintEviction(Controller):
    name = "taint-eviction-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tainted: dict[str, list[Taint]] = {}  # the NoExecute taints, by node
        self._evictions: dict[str, _Eviction] = {}  # to come, by pod
        self._nodes = self.cache.follow(NODES)
        self._pods = self.cache.follow(PODS)
        index_by_node(self._pods)
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    # ---- what changes

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._tainted.pop(old.name, None)
            return
        taints: list[Taint] = [taint for taint in new.spec.taints if taint.effect == NO_EXECUTE]
        if taints == self._tainted.get(new.name, []):
            return
        if taints:
            self._tainted[new.name] = taints
        else:
            del self._tainted[new.name]
        for pod in pods_on(self._pods, new.name):
            self._consider(pod, taints)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            assert old is not None
            self._cancel(old)
        elif new.spec.node_name in self._tainted and (
            old is None
            or old.spec.node_name != new.spec.node_name
            or old.spec.tolerations != new.spec.tolerations
        ):
            self._consider(new, self._tainted[new.spec.node_name])

    def _consider(self, pod: Pod, taints: Sequence[Taint]) -> None:
        """Decide when a pod has to leave. Once that is decided, it changes only where it need not leave."""
        patience = _patience(taints, pod.spec.tolerations) if taints else math.inf
        if patience == math.inf or patience == 0:
            self._cancel(pod)
        if patience < math.inf and pod.key not in self._evictions and not pod.terminating:
            self._evictions[pod.key] = _Eviction(pod.uid, self.context.clock() + patience)
            self.enqueue(pod.key, patience)

    def _cancel(self, pod: Pod) -> None:
        if self._evictions.pop(pod.key, None) is not None:
            note = f"Cancelling deletion of Pod {pod.key}"
            self.event(self._pods, pod, "Normal", "TaintManagerEviction", note)

    # ---- one pod

    async def sync(self, key: str) -> None:
        eviction, pod = self._evictions.get(key), self._pods.get(key)
        if eviction is None or pod is None or pod.uid != eviction.uid:
            return
        left = eviction.at - self.context.clock()
        if left > 0:
            self.enqueue(key, left)
            return
        self.event(self._pods, pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key}")
        message = "Taint manager: deleting due to NoExecute taint"
        pod = await disrupt(self, self._pods, pod, "DeletionByTaintManager", message)
        self._evictions.pop(key, None)  # from now on its end is no cancellation
        try:
            await self.delete(self._pods, pod)
        except ClusterError:
            self._evictions[key] = eviction
            raise


def _patience(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> float:
    """For how many seconds all of some taints are tolerated."""
    shortest, index = math.inf, Tolerations(tolerations)
    for taint in taints:
        used = index.find(taint)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            shortest = min(shortest, max(used.toleration_seconds, 0))
    return shortest
