"""Kubelet admission: what a node takes of the pods that are bound to it, and what it says to the others.

A scheduler that gives a node more than it has is found out here: the pod fails, in kubelet's words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from mooring.api.objects import Node, Pod, PodSpec
from mooring.api.resources import PODS, allocatable, host_ports, is_extended, pod_requests
from mooring.api.selectors import node_selector_matches
from mooring.api.tolerations import NO_EXECUTE, find_untolerated
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_ports import ANY_IP, NodePorts
from mooring.plugins.taint_toleration import TaintToleration

NOT_TOLERATED = "node(s) had taints that the pod didn't tolerate"

HostPort = tuple[str, str, int]
"""IP, protocol and number."""

INFEASIBLE, DEFERRED = "Infeasible", "Deferred"
"""Why a pod is not resized: the node is too small, or other pods take too much of it."""

ORDER = ("cpu", "memory", "ephemeral-storage")
"""The order in which kubelet looks at resources; others follow."""


class Refusal(NamedTuple):
    reason: str
    message: str


class Needs(NamedTuple):
    """What a pod takes of its node while it is there."""

    requests: Mapping[str, int]
    ports: tuple[HostPort, ...]


def needs_of(pod: Pod) -> Needs:
    requests = pod_requests(pod, use_status=True, pod_level=True, non_missing=False)
    return Needs(requests, host_ports(pod))


def resized_needs(pod: Pod) -> Needs:
    """Return what a pod takes once it is resized: what its spec says, whatever was allocated before."""
    requests = pod_requests(pod, use_status=False, pod_level=True, non_missing=False)
    return Needs(requests, host_ports(pod))


class Room:
    """What the pods take that a node has accepted."""

    __slots__ = ("_node", "_total", "pods", "ports", "requested")

    def __init__(self) -> None:
        self.pods = 0
        self.requested: dict[str, int] = {}
        self.ports: Counter[HostPort] = Counter()
        self._node: Node | None = None
        self._total: dict[str, int] = {}

    def give(self, needs: Needs) -> None:
        self._count(needs, 1)

    def take_back(self, needs: Needs) -> None:
        self._count(needs, -1)

    def _count(self, needs: Needs, sign: int) -> None:
        self.pods += sign
        requested = self.requested
        for name, amount in needs.requests.items():
            requested[name] = requested.get(name, 0) + sign * amount
        for port in needs.ports:
            self.ports[port] += sign

    def defer(self, node: Node, needs: Needs) -> Refusal | None:
        """Return why a pod cannot be resized, with the reason of its condition, or None."""
        self._follow(node)
        lacking = self._lacking(needs)
        if not lacking:
            return None
        name = min(lacking, key=_place)
        amount, capacity = needs.requests[name], self._total.get(name, 0)
        if amount > capacity:
            text = f"Node didn't have enough capacity: {name}, requested: {amount}, capacity: {capacity}"
            return Refusal(INFEASIBLE, text)
        return Refusal(DEFERRED, _out_of(name, amount, self.requested.get(name, 0), capacity).message)

    def _follow(self, node: Node) -> None:
        if node is not self._node:
            self._node, self._total = node, allocatable(node)

    def refuse(self, node: Node, pod: Pod, needs: Needs) -> Refusal | None:
        """Return why the node rejects a pod, or None. Of several reasons, kubelet reports the first."""
        self._follow(node)
        if self.pods >= self._total.get(PODS, 0):
            return _out_of(PODS, 1, self.pods, self._total.get(PODS, 0))
        lacking = self._lacking(needs)
        if lacking:
            name = min(lacking, key=_place)
            used, capacity = self.requested.get(name, 0), self._total.get(name, 0)
            return _out_of(name, needs.requests[name], used, capacity)
        spec, taints = pod.spec, node.spec.taints
        if not _wants(spec, node):
            return _failed(NodeAffinity.name, NodeAffinity.NOT_MATCHED)
        if needs.ports and any(map(self._is_taken, needs.ports)):
            return _failed(NodePorts.name, NodePorts.TAKEN)
        if taints and find_untolerated(taints, spec.tolerations, (NO_EXECUTE,)) is not None:
            return _failed(TaintToleration.name, NOT_TOLERATED)
        return None

    def _lacking(self, needs: Needs) -> list[str]:
        """Return the resources that are insufficient. Extended resources that the node does not list are
        ignored: another component accounts for them."""
        total, requested = self._total, self.requested
        return [
            name
            for name, amount in needs.requests.items()
            if amount > total.get(name, 0) - requested.get(name, 0)
            and amount > 0
            and (name in total or not is_extended(name))
        ]

    def _is_taken(self, port: HostPort) -> bool:
        ip, protocol, number = port
        return any(
            count and other[1:] == (protocol, number) and (other[0] == ip or ANY_IP in (other[0], ip))
            for other, count in self.ports.items()
        )


def _place(resource: str) -> int:
    return ORDER.index(resource) if resource in ORDER else len(ORDER)


def _wants(spec: PodSpec, node: Node) -> bool:
    labels = node.metadata.labels
    if spec.node_selector and any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    return node_selector_matches(affinity.required, labels, node.name)


def _out_of(resource: str, requested: int, used: int, capacity: int) -> Refusal:
    amounts = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return Refusal(f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {amounts}")


def _failed(predicate: str, why: str) -> Refusal:
    return Refusal(predicate, f"Predicate {predicate} failed: {why}")
