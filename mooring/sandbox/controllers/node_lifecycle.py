"""Node lifecycle: silent nodes become Unknown, and taints derived from the conditions of a node inform
schedulers and the taint eviction controller.

kube-controller-manager looks at all nodes every five seconds. Here every node has a timer for the moment when
it would have been silent for too long, and nodes that are simulated in this process need not even that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from mooring.api.coordination import Lease
from mooring.api.kinds import LEASES, NODES, PODS
from mooring.api.objects import Node, Pod, Taint
from mooring.api.times import parse_time
from mooring.api.tolerations import NO_EXECUTE, NO_SCHEDULE
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType
from mooring.sandbox.controllers.placement import index_by_node, pods_on
from mooring.sandbox.controllers.zones import Zone, Zones, zone_of

GRACE_PERIOD = 50.0  # seconds without a sign of life
STARTUP_GRACE_PERIOD = 60.0  # for nodes that never said how they are
LEASE_NAMESPACE = "kube-node-lease"

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_OURS = {(key, NO_SCHEDULE) for key in (*_BY_CONDITION.values(), UNSCHEDULABLE)} | {
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_EXECUTE),
}
_POSTED_BY_KUBELETS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_OLD_LABELS = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}
_MOMENT = 0.001
_TURN = 32  # pods written before others on the event loop have their turn


class SimulatedNodes(Protocol):
    """A component of this process that knows the state of some nodes without their leases."""

    def pulse(self, name: str) -> float | None:
        """Return when a node was last alive: now if it is healthy, the time of its failure if it has
        failed, or None if unknown: then its heartbeats decide."""
        ...

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Have it called with the name of a node that came, failed or recovered."""
        ...


class _Signs(NamedTuple):
    """Last heartbeat of a node, and when it was observed."""

    heartbeat: str | None
    renewed: str | None
    seen: float


class NodeLifecycle(Controller):
    name = "node-controller"

    def __init__(self, context: Context, simulated: SimulatedNodes | None = None) -> None:
        super().__init__(context)
        self._simulated = simulated
        self._signs: dict[str, _Signs] = {}
        self._zones = Zones()
        self._last_eviction: dict[Zone, float] = {}
        self._nodes = self.cache.follow(NODES)
        self._pods = self.cache.follow(PODS)
        self._leases = self.cache.follow(LEASES)
        index_by_node(self._pods)
        self._nodes.subscribe(self._node_changed)
        self._leases.subscribe(self._lease_changed)
        if simulated is not None:
            simulated.on_change(self._pulse_changed)

    def _pulse(self, name: str) -> float | None:
        return None if self._simulated is None else self._simulated.pulse(name)

    def _pulse_changed(self, name: str) -> None:
        """Check a node a moment later: one that has just failed still looks healthy."""
        self.enqueue(name, _MOMENT)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = old if new is None else new
        assert node is not None
        if old is None:
            self._record(node, "RegisteredNode", f"Registered Node {node.name} in Controller")
        elif new is None:
            self._record(node, "RemovingNode", f"Removing Node {node.name} from Controller")
        self.enqueue(node.name)
        if self._zones.update(node.name, new):
            for name in self._zones.lost():
                self.enqueue(name)

    def _record(self, node: Node, reason: str, what: str) -> None:
        self.event(self._nodes, node, "Normal", reason, f"Node {node.name} event: {what}")

    def _lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        """Record the renewal; the node is not enqueued, because its timer reads the record."""
        if new is not None and new.namespace == LEASE_NAMESPACE:
            node = self._nodes.get(new.name)
            if node is not None and self._pulse(node.name) is None:
                self._hear(node)

    async def sync(self, key: str) -> None:
        node = self._nodes.get(key)
        if node is None:
            self._signs.pop(key, None)
            return
        now = self.context.clock()
        last = self._pulse(key)
        alive = last is not None and last >= now
        if not alive:
            if last is None:
                last = self._hear(node)
            has_reported = node.condition("Ready") is not None
            left = last + (GRACE_PERIOD if has_reported else STARTUP_GRACE_PERIOD) - now
            if left > 0:
                self.enqueue(key, left)
            else:
                node = await self._lose(node)
        await self._mark(node)

    # ---- signs of life

    def _hear(self, node: Node) -> float:
        """Return when the last heartbeat of a node was observed, by the local clock."""
        name = node.name
        ready = node.condition("Ready")
        lease = self._leases.get(f"{LEASE_NAMESPACE}/{name}")
        heartbeat = None if ready is None else ready.last_heartbeat_time
        renewed = None if lease is None else lease.spec.renew_time
        before = self._signs.get(name)
        if before is not None and (before.heartbeat, before.renewed) == (heartbeat, renewed):
            return before.seen
        seen = self.context.clock()
        if before is None and ready is None and renewed is None and node.metadata.creation_timestamp:
            seen = parse_time(node.metadata.creation_timestamp)
        self._signs[name] = _Signs(heartbeat, renewed, seen)
        return seen

    async def _lose(self, node: Node) -> Node:
        """Set the conditions of a silent node to Unknown and emit an event if it was ready."""
        was_ready = node.ready
        conditions = [_lost(node, type, self.context.now()) for type in _POSTED_BY_KUBELETS]
        changed = [condition for condition in conditions if condition is not None]
        if changed:
            patch = {"metadata": {"uid": node.uid}, "status": {"conditions": changed}}
            node = await self.cluster.patch(
                NODES, node.name, patch, subresource="status", kind=PatchType.STRATEGIC
            )
            self._nodes.wrote(node)
        if was_ready:
            note = f"Node {node.name} status is now: NodeNotReady"
            self.event(self._nodes, node, "Normal", "NodeNotReady", note)
        for count, pod in enumerate(pods_on(self._pods, node.name), 1):
            if pod.ready:
                await self._mark_pod(pod)
            if count % _TURN == 0:
                await asyncio.sleep(0)
        return node

    async def _mark_pod(self, pod: Pod) -> None:
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": self.context.now()}
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            written = await self.cluster.patch(
                PODS, pod.name, patch, pod.namespace, subresource="status", kind=PatchType.STRATEGIC
            )
        except ApiError as refusal:
            if not (refusal.not_found or refusal.conflict):
                raise
        else:
            self._pods.wrote(written)
            self.event(self._pods, pod, "Warning", "NodeNotReady", "Node is not ready")

    # ---- taints

    async def _mark(self, node: Node) -> None:
        """Bring taints, and labels that have two names, in line with what a node says of itself."""
        patch: dict[str, Any] = {}
        taints = self._taints(node)
        if taints != node.spec.taints:
            patch["spec"] = {"taints": taints}
        labels = node.metadata.labels
        aliases = {
            old: labels[new]
            for new, old in _OLD_LABELS.items()
            if new in labels and labels.get(old) != labels[new]
        }
        if not (patch or aliases):
            return
        patch["metadata"] = {"resourceVersion": node.metadata.resource_version, "labels": aliases}
        self._nodes.wrote(await self.cluster.patch(NODES, node.name, patch))

    def _taints(self, node: Node) -> list[Taint]:
        """The taints that a node should have: those of others as they are, and ours."""
        desired = {
            (key, NO_SCHEDULE): None
            for condition in node.status.conditions
            if (key := _BY_CONDITION.get((condition.type, condition.status))) is not None
        }
        if node.spec.unschedulable:
            desired[UNSCHEDULABLE, NO_SCHEDULE] = None
        present = {(taint.key, taint.effect) for taint in node.spec.taints}
        reason = next((key for key in (NOT_READY, UNREACHABLE) if (key, NO_SCHEDULE) in desired), None)
        if reason is not None and self._may_evict(node, (reason, NO_EXECUTE), present):
            desired[reason, NO_EXECUTE] = None
        kept = [
            taint
            for taint in node.spec.taints
            if (taint.key, taint.effect) in desired or (taint.key, taint.effect) not in _OURS
        ]
        now = self.context.now()
        added = [Taint(key=key, effect=effect, time_added=now) for key, effect in desired.keys() - present]
        return kept + sorted(added, key=lambda taint: (taint.effect, taint.key), reverse=True)

    def _may_evict(self, node: Node, taint: tuple[str, str], present: set[tuple[str, str]]) -> bool:
        """Whether a node may lose its pods now. A reason may be exchanged for another at any time; else it
        has to wait for its turn in its zone. Where no node is ready, none does."""
        if self._zones.all_lost:
            return False
        if taint in present or {(NOT_READY, NO_EXECUTE), (UNREACHABLE, NO_EXECUTE)} & present:
            return True
        zone, now = zone_of(node), self.context.clock()
        interval = self._zones.interval(zone)
        if interval is None:
            return False
        turn = self._last_eviction.get(zone, 0.0) + interval
        if turn > now:
            self.enqueue(node.name, turn - now)
            return False
        self._last_eviction[zone] = now
        return True


def _lost(node: Node, type: str, now: str) -> dict[str, Any] | None:
    """Return the condition of a silent node; None if it already has it."""
    condition = node.condition(type)
    if condition is None:
        return {
            "type": type,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node.metadata.creation_timestamp,
            "lastTransitionTime": now,
        }
    if condition.status == "Unknown":
        return None
    changed = msgspec.structs.replace(
        condition,
        status="Unknown",
        reason="NodeStatusUnknown",
        message="Kubelet stopped posting node status.",
        last_transition_time=now,
    )
    trees: dict[str, Any] = msgspec.to_builtins(changed)
    return trees
