"""Pod garbage collection: pods that no kubelet will ever remove, and the oldest of too many finished ones.

Where kube-controller-manager looks at all pods every twenty seconds, here changes are followed.
"""

from __future__ import annotations

import asyncio

from mooring.api.kinds import NODES, PODS
from mooring.api.objects import Node, Pod
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.placement import disrupt, index_by_node, pods_on

QUARANTINE = 40.0  # seconds that a node may be missing before its pods are
TERMINATED_PODS = 12_500
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

_TERMINATED = "terminated"  # in the queue, where nodes ("node/…") and pods ("pod/…") are otherwise
_TURN = 32


class PodGC(Controller):
    name = "pod-garbage-collector-controller"

    def __init__(self, context: Context, terminated_pods: int = TERMINATED_PODS) -> None:
        super().__init__(context)
        self._threshold = terminated_pods
        self._terminated: set[str] = set()
        self._missing: dict[str, float] = {}  # since when, of nodes that have pods but are not there
        self._nodes = self.cache.follow(NODES)
        self._pods = self.cache.follow(PODS)
        index_by_node(self._pods)
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    # ---- what changes

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._missing.pop(new.name, None)
            if _out_of_service(new):
                self.enqueue(f"node/{new.name}")
        elif old is not None and pods_on(self._pods, old.name):
            self._miss(old.name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.finished:
            if self._terminated:
                pod = old if new is None else new
                assert pod is not None
                self._terminated.discard(pod.key)
        elif new.key not in self._terminated:
            self._terminated.add(new.key)
            if len(self._terminated) > self._threshold:
                self.enqueue(_TERMINATED)
        if new is None:
            return
        name = new.spec.node_name
        if not name:
            if new.terminating:
                self.enqueue(f"pod/{new.key}")
            return
        node = self._nodes.get(name)
        if node is None:
            self._miss(name)
        elif new.terminating and _out_of_service(node):
            self.enqueue(f"node/{name}")

    def _miss(self, name: str) -> None:
        if name not in self._missing:
            self._missing[name] = self.context.clock()
            self.enqueue(f"node/{name}", QUARANTINE)

    # ---- what goes

    async def sync(self, key: str) -> None:
        what, _, name = key.partition("/")
        if what == "node":
            await self._look_after_node(name)
        elif what == "pod":
            pod = self._pods.get(name)
            if pod is not None and pod.terminating and not pod.spec.node_name:
                await self._remove(pod)
        else:
            await self._remove_terminated()

    async def _look_after_node(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is not None:
            if _out_of_service(node):
                await self._remove_all([pod for pod in pods_on(self._pods, name) if pod.terminating])
            return
        since = self._missing.get(name)
        if since is None:
            return
        left = since + QUARANTINE - self.context.clock()
        if left > 0:
            self.enqueue(f"node/{name}", left)
            return
        if not await self._exists(name):
            pods = pods_on(self._pods, name)
            await self._remove_all(pods, "DeletionByPodGC", "PodGC: node no longer exists")
        self._missing.pop(name, None)

    async def _exists(self, name: str) -> bool:
        try:
            await self.cluster.get(NODES, name)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            return False
        return True

    async def _remove_terminated(self) -> None:
        """The evicted first, then the oldest."""
        terminated = [pod for key in self._terminated if (pod := self._pods.get(key)) is not None]
        terminated.sort(
            key=lambda pod: (
                not (pod.status.phase == "Failed" and pod.status.reason == "Evicted"),
                pod.metadata.creation_timestamp or "",
                pod.name,
            )
        )
        await self._remove_all(terminated[: max(len(terminated) - self._threshold, 0)])

    async def _remove_all(self, pods: list[Pod], reason: str = "", message: str = "") -> None:
        for count, pod in enumerate(pods, 1):
            await self._remove(pod, reason, message)
            if count % _TURN == 0:
                await asyncio.sleep(0)

    async def _remove(self, pod: Pod, reason: str = "", message: str = "") -> None:
        """Delete without grace period: no kubelet will stop the pod."""
        try:
            if not pod.finished:
                await disrupt(self, self._pods, pod, reason, message, phase="Failed")
            await self.cluster.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=0)
        except ApiError as refusal:
            if not (refusal.not_found or refusal.conflict):
                raise
            if refusal.not_found:
                self._pods.delete(pod)


def _out_of_service(node: Node) -> bool:
    return not node.ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)
