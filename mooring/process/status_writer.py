"""Pod statuses on their way to the API server: conditions, nominations, and marks of preemption."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.kinds import PODS
from mooring.api.meta import Condition
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.backoff import Backoff
from mooring.client.port import Cluster, PatchType
from mooring.core.effects import PatchPodStatus
from mooring.framework.pod import PodInfo
from mooring.process.logs import failed

log = logging.getLogger("mooring.status")

WORKERS = 8
TRIES = 8  # over about two minutes, as for events


def status_patch(
    pod: PodInfo, condition: Condition | None, nominated_node: str | None, now: float
) -> dict[str, Any]:
    """A strategic merge patch. The UID protects a new pod with the same name."""
    status: dict[str, Any] = {}
    if condition is not None:
        written = msgspec.to_builtins(condition)
        current = next((c for c in pod.status.conditions if c.type == condition.type), None)
        if current is None or current.status != condition.status:
            written["lastTransitionTime"] = format_time(now)
        status["conditions"] = [written]
    if nominated_node is not None:
        status["nominatedNodeName"] = nominated_node or None
    return {"metadata": {"uid": pod.uid}, "status": status}


class StatusWriter:
    """Writes the newest state of each pod, in order; states superseded before they are sent are skipped.

    `is_pending(uid)` returns whether a pod still waits for a node. For other pods nothing is written: a
    failed attempt is no longer relevant.
    """

    def __init__(
        self, cluster: Cluster, clock: Callable[[], float], is_pending: Callable[[str], bool]
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._is_pending = is_pending
        self._pending: dict[str, PatchPodStatus] = {}
        self._arrived = asyncio.Event()
        self._busy: set[str] = set()  # those that a worker cares for
        self._on_their_way: Counter[str] = Counter()  # requests by pod; a victim may have two
        self._out_of_reach = False

    def put(self, effect: PatchPodStatus) -> None:
        uid = effect.pod.uid
        earlier = self._pending.pop(uid, None)
        self._pending[uid] = effect if earlier is None else _merged(earlier, effect)
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
            self._busy.add(uid)
            try:
                await self._write_newest(uid)
            finally:
                self._busy.discard(uid)
                self._arrived.set()

    async def _write_newest(self, uid: str) -> None:
        """Write what waits for a pod, with patience where the server is away; news that come meanwhile are
        taken along."""
        backoff = Backoff(clock=asyncio.get_running_loop().time)
        for _ in range(TRIES):
            effect = self._pending.pop(uid)
            if not self._is_pending(uid):
                return
            try:
                await self.write(effect)
                self._out_of_reach = False
                return
            except ClusterError as failure:
                if not self._may_heal(effect, failure):
                    return
            newer = self._pending.get(uid)
            self._pending[uid] = effect if newer is None else _merged(effect, newer)
            await asyncio.sleep(backoff.wait())
        del self._pending[uid]  # a later attempt will have something to say again

    async def write(self, effect: PatchPodStatus) -> None:
        pod = effect.pod
        patch = status_patch(pod, effect.condition, effect.nominated_node, self._clock())
        self._on_their_way[pod.uid] += 1
        try:
            await self._cluster.patch(
                PODS, pod.name, patch, pod.namespace, subresource="status", kind=PatchType.STRATEGIC
            )
        finally:
            self._on_their_way[pod.uid] -= 1
            if not self._on_their_way[pod.uid]:
                del self._on_their_way[pod.uid]

    def _may_heal(self, effect: PatchPodStatus, failure: ClusterError) -> bool:
        """Say what is wrong; whether the same request may succeed a little later."""
        if isinstance(failure, ApiError) and not failure.transient:
            if not (failure.not_found or failure.conflict):  # else it is gone, or another has its name
                failed(log, "Failed to update pod status", pod=effect.pod.key, err=failure)
            return False
        if not self._out_of_reach:
            self._out_of_reach = True
            log.warning("cannot write pod statuses: %s; retrying", failure)
        return True

    async def settled(self, uid: str) -> None:
        """Until no request about a pod is on its way."""
        while uid in self._on_their_way:
            await asyncio.sleep(0.01)

    async def flush(self) -> None:
        """Until all that was put has been sent."""
        while self._pending or self._busy:
            await asyncio.sleep(0.01)


def _merged(earlier: PatchPodStatus, later: PatchPodStatus) -> PatchPodStatus:
    """The later one, with the parts of the earlier that it says nothing about."""
    nominated = earlier.nominated_node if later.nominated_node is None else later.nominated_node
    return PatchPodStatus(later.pod, later.condition or earlier.condition, nominated)
