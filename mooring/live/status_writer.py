"""Pod statuses on their way to the API server: conditions, nominations, and marks of preemption."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.meta import Condition
from mooring.api.times import format_time
from mooring.cluster.errors import ApiError, ClusterError
from mooring.cluster.kinds import PODS
from mooring.cluster.port import Cluster, PatchType
from mooring.core.effects import PatchPodStatus
from mooring.framework.pod import PodInfo

log = logging.getLogger("mooring.status")

WORKERS = 8


def status_patch(
    pod: PodInfo, condition: Condition | None, nominated_node: str | None, now: float
) -> dict[str, Any]:
    """A strategic merge patch. Naming the UID keeps it off a pod created anew under the same name."""
    status: dict[str, Any] = {}
    if condition is not None:
        told = msgspec.to_builtins(condition)
        known = next((c for c in pod.status.conditions if c.type == condition.type), None)
        if known is None or known.status != condition.status:
            told["lastTransitionTime"] = format_time(now)
        status["conditions"] = [told]
    if nominated_node is not None:
        status["nominatedNodeName"] = nominated_node or None
    return {"metadata": {"uid": pod.uid}, "status": status}


class StatusWriter:
    """Writes the newest state of each pod; what was overtaken before it was sent is never sent."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._pending: dict[str, PatchPodStatus] = {}
        self._arrived = asyncio.Event()
        self._busy: set[str] = set()

    def put(self, effect: PatchPodStatus) -> None:
        uid = effect.pod.uid
        earlier = self._pending.pop(uid, None)
        if earlier is not None:  # keep the parts that the newer one says nothing about
            condition = effect.condition or earlier.condition
            nominated = earlier.nominated_node if effect.nominated_node is None else effect.nominated_node
            effect = PatchPodStatus(effect.pod, condition, nominated)
        self._pending[uid] = effect
        self._arrived.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            uid = next((uid for uid in self._pending if uid not in self._busy), None)
            if uid is None:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            effect = self._pending.pop(uid)
            self._busy.add(uid)
            try:
                await self.write(effect)
            except ClusterError as failure:
                self._complain(effect.pod, failure)
            finally:
                self._busy.discard(uid)
                self._arrived.set()

    async def write(self, effect: PatchPodStatus) -> None:
        pod = effect.pod
        patch = status_patch(pod, effect.condition, effect.nominated_node, self._clock())
        await self._cluster.patch(
            PODS, pod.name, patch, pod.namespace, subresource="status", kind=PatchType.STRATEGIC
        )

    def _complain(self, pod: PodInfo, failure: ClusterError) -> None:
        if isinstance(failure, ApiError) and (failure.not_found or failure.conflict):
            return  # the pod is gone, or another has its name
        log.error('"Failed to update pod status" pod="%s" err="%s"', pod.key, failure)

    async def flush(self) -> None:
        """Until all that was put has been sent."""
        while self._pending or self._busy:
            await asyncio.sleep(0.01)
