"""Heartbeats: fake nodes are Ready, and renew their leases in kube-node-lease as long as they work."""

from __future__ import annotations

import math

from mooring.api.kinds import LEASES, NODES
from mooring.api.objects import Node
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType
from mooring.sandbox.kubelet.fleet import Fleet
from mooring.sandbox.kubelet.machines import completion, healthy

LEASE_NAMESPACE = "kube-node-lease"
LEASE_DURATION = 40  # seconds
RENEW_EVERY = 10.0  # a quarter of that, as kubelet does
LONGEST_RENEWAL = 20.0  # half of it is still safe
MOST_PER_SECOND = 100
"""Renewals. With more nodes than this and RENEW_EVERY allow, each renews less often."""
TOGETHER = 0.5
"""Seconds. Leases that fall due within so many are renewed one after the other: woken up for each alone, the
process would do it at twice the cost."""
STATUS_EVERY = 300.0
GOLDEN = 0.618033988749895


class Heartbeats(Controller):
    """Looks after Node objects. Without `leases` nothing is written that only says that time passes."""

    name = "kubelet"

    def __init__(self, context: Context, fleet: Fleet, *, leases: bool) -> None:
        super().__init__(context)
        self._fleet = fleet
        self._leases = leases
        self._nodes = context.cache.follow(NODES)
        self._next: dict[str, float] = {}  # when the lease is to be renewed
        self._written: dict[str, float] = {}  # when the status was written last
        self._spread = 0.0
        fleet.listen(self.enqueue)

    async def sync(self, key: str) -> None:
        machine = self._fleet.find(key)
        node = None if machine is None else machine.node
        if machine is None or node is None or not machine.works:
            self._next.pop(key, None)  # once it works again, at once
            self._written.pop(key, None)
            return
        now = self.context.clock()
        status = completion(node, machine.address)
        if not node.ready or self._is_status_due(key, now):
            status["conditions"] = healthy(format_time(now), node)
        if status:
            self._written[key] = now
            self._nodes.wrote(
                await self.cluster.patch(
                    NODES, key, {"status": status}, subresource="status", kind=PatchType.STRATEGIC
                )
            )
        if self._leases:
            await self._renew(node, now)

    def _is_status_due(self, key: str, now: float) -> bool:
        return self._leases and now >= self._written.setdefault(key, now) + STATUS_EVERY

    async def _renew(self, node: Node, now: float) -> None:
        name, every = node.name, self._interval()
        due = self._next.get(name)
        if due is None:  # the first time; from then on not all of them at the same time
            await self._acquire(node, now)
            self._spread = (self._spread + GOLDEN) % 1.0
            due = now + every * self._spread
        elif now >= due:
            await self._patch(node, now)
            due = now + every
        self._next[name] = due = math.ceil(due / TOGETHER) * TOGETHER
        self.enqueue(name, due - now)

    def _interval(self) -> float:
        return min(max(RENEW_EVERY, len(self._nodes) / MOST_PER_SECOND), LONGEST_RENEWAL)

    def renewals_per_second(self) -> float:
        return len(self._nodes) / self._interval() if self._leases else 0.0

    async def _acquire(self, node: Node, now: float) -> None:
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {
                "name": node.name,
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}],
            },
            "spec": {
                "holderIdentity": node.name,
                "leaseDurationSeconds": LEASE_DURATION,
                "renewTime": format_time(now, micro=True),
            },
        }
        try:
            await self.cluster.create(LEASES, lease, LEASE_NAMESPACE)
        except ApiError as refusal:
            if not refusal.conflict:
                raise
            await self._patch(node, now)

    async def _patch(self, node: Node, now: float) -> None:
        renewal = {"spec": {"holderIdentity": node.name, "renewTime": format_time(now, micro=True)}}
        try:
            await self.cluster.patch(LEASES, node.name, renewal, LEASE_NAMESPACE)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            await self._acquire(node, now)
