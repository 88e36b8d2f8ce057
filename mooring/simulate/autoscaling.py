"""Models of autoscalers at depth `core`: nodes are added for pending pods, and removed when they are empty or
their pods fit elsewhere.

How many nodes of a group the pending pods need is found by scheduling them on copies of its template with the
policy's own scheduler. The Cluster Autoscaler scans at intervals and adds nodes of the one group that its
expander chooses; the Karpenter-like model waits for a batch and takes, node by node, the type on which a pod
costs least. The former drains a node of which little is requested; the latter any node whose pods fit on the
others or on one cheaper new node. Both are models: they do not claim the real programs' exact decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, inf
from pathlib import Path

import msgspec
import numpy as np

from mooring.api.objects import Node, Pod
from mooring.api.resources import allocatable, pod_requests
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.simulate.agenda import Order
from mooring.simulate.draining import fit_elsewhere, is_movable, utilization
from mooring.simulate.engine import CoreRun
from mooring.simulate.random_streams import stream
from mooring.simulate.scenario import AutoscalerSpec, NodeGroupSpec
from mooring.simulate.templates import Mould
from mooring.simulate.units import parse_span

KINDS = ("cluster-autoscaler", "karpenter")
EXPANDERS = ("random", "most-pods", "least-waste", "price")
MOST_NODES = 10_000
MOST_TRIED = 3  # nodes whose pods are tried elsewhere in one scan
DEFAULTS = {"cluster-autoscaler": (10.0, 600.0, 0.5), "karpenter": (1.0, 30.0, 1.0)}
"""interval, empty_for and drain_below"""


class NodeGroup(msgspec.Struct, eq=False):
    """Nodes of one template; `delay` is the time from the request to Ready, `price` is per hour."""

    name: str
    template: Node
    minimum: int = 0
    maximum: int = 100
    price: float = 0.0
    delay: float = 60.0


class AutoscalerPlan(msgspec.Struct, eq=False):
    kind: str
    groups: Sequence[NodeGroup]
    expander: str = "least-waste"
    interval: float = 10.0  # between scans; Karpenter: the time in which a batch collects
    empty_for: float = 600.0  # seconds after which a node that is not needed is removed
    drain_below: float = 0.5  # nodes of which less is requested are not needed if their pods fit elsewhere


def compile_autoscaler(spec: AutoscalerSpec, folder: Path) -> AutoscalerPlan:
    """Raises ValueError."""
    for field, value, choices in (("kind", spec.kind, KINDS), ("expander", spec.expander, EXPANDERS)):
        if value not in choices:
            raise ValueError(f'{field}: expected {" or ".join(choices)}, found "{value}"')
    if not spec.groups:
        raise ValueError("groups: expected at least one node group")
    interval, empty_for, drain_below = DEFAULTS[spec.kind]
    plan = AutoscalerPlan(
        spec.kind,
        [_group(group, folder) for group in spec.groups],
        spec.expander,
        interval if spec.interval is None else parse_span(spec.interval),
        empty_for if spec.empty_for is None else parse_span(spec.empty_for),
        drain_below if spec.drain_below is None else spec.drain_below,
    )
    if not 0 <= plan.drain_below <= 1:
        raise ValueError(f"drainBelow: expected a share from 0 to 1, found {plan.drain_below}")
    if plan.interval <= 0:
        raise ValueError("interval: expected more than 0 s")
    return plan


def _group(spec: NodeGroupSpec, folder: Path) -> NodeGroup:
    if not 0 <= spec.min <= spec.max <= MOST_NODES or spec.price < 0:
        raise ValueError(
            f"groups: {spec.name}: expected 0 <= min <= max <= {MOST_NODES}, and no negative price"
        )
    (node, *_) = Mould(folder / spec.template).nodes(0)
    labels = {"node.kubernetes.io/instance-type": spec.name, **node.metadata.labels}
    node = msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))
    return NodeGroup(spec.name, node, spec.min, spec.max, spec.price, parse_span(spec.delay))


class Offer(msgspec.Struct, eq=False):
    """What nodes of a group would do for the pending pods."""

    group: NodeGroup
    nodes: int
    pods: list[str]  # uids of those that would fit
    waste: float  # share of the nodes' CPU and memory that stays free


class Autoscaler:
    """Listens to a run, and looks at it at the next scan after something changed."""

    def __init__(self, plan: AutoscalerPlan, scheduler: Callable[[], Scheduler], seed: int) -> None:
        self._plan = plan
        self._scheduler = scheduler
        self._random = stream(seed, "autoscaler")
        self._made: dict[str, int] = {group.name: 0 for group in plan.groups}
        self._present: dict[str, NodeGroup] = {}  # by node name, once it is there
        self._coming: dict[str, NodeGroup] = {}
        self._empty_since: dict[str, float] = {}
        self._low_since: dict[str, tuple[float, frozenset[str]]] = {}  # and with which pods
        self._last_up = -inf
        self._scan_at = inf
        self._seen: tuple[int, int, int, int] | None = None
        self.ups = 0
        self.downs = 0

    def begin(self, run: CoreRun) -> None:
        """Add the nodes that each group has at least."""
        for group in self._plan.groups:
            for _ in range(group.minimum):
                self._order(run, group, delay=0.0)

    def settled(self, run: CoreRun) -> None:
        """Have the next scan made if anything changed since the last one."""
        state = (run.pending, run.running, run.arrived, len(self._present))
        if state != self._seen:
            self._seen = state
            self._plan_scan(run, run.clock.now + self._plan.interval)

    def _plan_scan(self, run: CoreRun, time: float) -> None:
        interval = self._plan.interval
        time = ceil(round(time / interval, 6)) * interval
        if self._scan_at <= time:
            return
        self._scan_at = time
        run.at(time, Order.TIMER, lambda: self._scan(run, time))

    def _scan(self, run: CoreRun, time: float) -> None:
        if time != self._scan_at:
            return  # an earlier scan took its place
        self._scan_at = inf
        self._scale_up(run)
        self._scale_down(run)
        self._drain_one(run)

    # ---- up

    def _scale_up(self, run: CoreRun) -> None:
        if self._coming:
            return  # those may be enough
        pods = run.unschedulable_pods()
        while pods:
            offers = [offer for group in self._plan.groups if (offer := self._offer(run, group, pods))]
            if not offers:
                return
            chosen = self._choose(offers)
            for _ in range(chosen.nodes):
                self._order(run, chosen.group, chosen.group.delay)
            self.ups += 1
            self._last_up = run.clock.now
            if self._plan.kind == "cluster-autoscaler":
                return
            placed = set(chosen.pods)
            pods = [pod for pod in pods if pod.uid not in placed]

    def _offer(self, run: CoreRun, group: NodeGroup, pods: Sequence[Pod]) -> Offer | None:
        room = group.maximum - self._count(group)
        most = min(room, 1 if self._plan.kind == "karpenter" else room)
        placed, nodes = fill(self._scheduler(), group.template, pods, most)
        if not placed:
            return None
        used = [pod_requests(pod, use_status=False, pod_level=True, non_missing=False) for pod in placed]
        shares = [
            1 - sum(each.get(name, 0) for each in used) / (nodes * amount)
            for name, amount in allocatable(group.template).items()
            if name in ("cpu", "memory") and amount
        ]
        return Offer(group, nodes, [pod.uid for pod in placed], float(np.mean(shares)) if shares else 0.0)

    def _choose(self, offers: Sequence[Offer]) -> Offer:
        if self._plan.kind == "karpenter":
            return min(
                offers, key=lambda offer: (offer.group.price * offer.nodes / len(offer.pods), offer.waste)
            )
        if self._plan.expander == "random":
            return offers[int(self._random.integers(0, len(offers)))]
        if self._plan.expander == "most-pods":
            return max(offers, key=lambda offer: len(offer.pods))
        if self._plan.expander == "price":
            return min(offers, key=lambda offer: offer.group.price * offer.nodes / len(offer.pods))
        return min(offers, key=lambda offer: offer.waste)

    def _count(self, group: NodeGroup) -> int:
        nodes = (*self._present.values(), *self._coming.values())
        return sum(each is group for each in nodes)

    def _order(self, run: CoreRun, group: NodeGroup, delay: float, instead_of: str = "") -> None:
        node = named(group.template, f"{group.name}-{self._made[group.name]}")
        self._made[group.name] += 1
        self._coming[node.name] = group

        def ready() -> None:
            self._present[node.name] = self._coming.pop(node.name)
            self._empty_since[node.name] = run.clock.now
            run.apply(node)
            old = run.nodes.get(instead_of) if instead_of in self._present else None
            if old is not None:
                self._drain(run, old)

        run.at(run.clock.now + delay, Order.NODE, ready)

    # ---- down

    def _scale_down(self, run: CoreRun) -> None:
        now, wait = run.clock.now, self._plan.empty_for
        for name, group in list(self._present.items()):
            if run.pod_on(name):
                self._empty_since.pop(name, None)
                continue
            since = self._empty_since.setdefault(name, now)
            if self._count(group) <= group.minimum:
                continue
            if now - since < wait:
                self._plan_scan(run, since + wait)
                continue
            node = run.nodes.get(name)
            del self._present[name], self._empty_since[name]
            if node is not None:
                run.delete(node)
                self.downs += 1

    def _drain_one(self, run: CoreRun) -> None:
        """Drain the least used node that was not needed for long enough, if its pods fit elsewhere."""
        now, plan = run.clock.now, self._plan
        if self._coming or run.unschedulable_pods() or not plan.drain_below:
            return
        settled = self._last_up + (plan.empty_for if plan.kind == "cluster-autoscaler" else 0.0)
        candidates = []
        for name, group in self._present.items():
            node, pods = run.nodes.get(name), run.pods_of(name)
            if node is None or not pods or not all(is_movable(run, pod) for pod in pods):
                self._low_since.pop(name, None)
                continue
            used, names = utilization(node, pods), frozenset(pod.uid for pod in pods)
            since, before = self._low_since.get(name, (now, names))
            if (used >= plan.drain_below and plan.drain_below < 1) or self._count(group) <= group.minimum:
                self._low_since.pop(name, None)
                continue
            if plan.kind == "karpenter" and before != names:
                since = now
            self._low_since[name] = since, names
            due = max(since + plan.empty_for, settled)
            if now < due:
                self._plan_scan(run, due)
            else:
                candidates.append((used, name, node, pods))
        for _, _, node, pods in sorted(candidates, key=lambda each: each[:2])[:MOST_TRIED]:
            if fit_elsewhere(run, node, pods, self._scheduler):
                self._drain(run, node)
                return
            if plan.kind == "karpenter" and self._replace(run, node, pods):
                return

    def _replace(self, run: CoreRun, node: Node, pods: Sequence[Pod]) -> bool:
        """Order one cheaper node that holds all the pods; the old one is drained when it is Ready."""
        price = self._present[node.name].price
        for group in sorted(self._plan.groups, key=lambda group: group.price):
            if group.price >= price or self._count(group) >= group.maximum:
                continue
            waiting = [
                msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
                for pod in pods
            ]
            placed, _ = fill(self._scheduler(), group.template, waiting, 1)
            if len(placed) == len(pods):
                self._order(run, group, group.delay, instead_of=node.name)
                return True
        return False

    def _drain(self, run: CoreRun, node: Node) -> None:
        self._present.pop(node.name, None)
        self._empty_since.pop(node.name, None)
        self._low_since.pop(node.name, None)
        run.drain(node)
        self.downs += 1
        self._plan_scan(run, run.clock.now + self._plan.interval)


def fill(scheduler: Scheduler, template: Node, pods: Sequence[Pod], most: int) -> tuple[list[Pod], int]:
    """Schedule pods on as many copies of a node as they need, the largest pods first; the pods that fit, and
    the number of nodes."""
    cluster = MemoryCluster(scheduler)
    capacity = allocatable(template)

    def size(pod: Pod) -> float:
        requests = pod_requests(pod, use_status=False, pod_level=True, non_missing=False)
        return max(
            (amount / capacity[name] for name, amount in requests.items() if capacity.get(name)), default=0.0
        )

    waiting, placed, nodes = sorted(pods, key=size, reverse=True), list[Pod](), 0
    while waiting and nodes < min(most, MOST_NODES):
        cluster.apply(named(template, f"{template.name}~{nodes}"))
        if not nodes:
            for pod in waiting:
                cluster.apply(pod)
        cluster.run()
        fitting = [pod for pod in waiting if cluster.pods[pod.uid].spec.node_name]
        if not fitting:
            break
        nodes += 1
        placed += fitting
        waiting = [pod for pod in waiting if not cluster.pods[pod.uid].spec.node_name]
    return placed, nodes


def named(template: Node, name: str) -> Node:
    labels = {**template.metadata.labels, "kubernetes.io/hostname": name}
    metadata = msgspec.structs.replace(template.metadata, name=name, uid=f"Node/{name}", labels=labels)
    return msgspec.structs.replace(template, metadata=metadata)
