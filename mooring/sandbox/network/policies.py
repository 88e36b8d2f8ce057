"""NetworkPolicies: whether a connection between two addresses is allowed, as a network plugin enforces it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Final, NamedTuple

import msgspec

from mooring.api.kinds import NAMESPACES, PODS, ApiResource
from mooring.api.meta import KubeObject, LabelSelector, Struct
from mooring.api.objects import Pod
from mooring.api.selectors import matches
from mooring.client.cache import Cache
from mooring.sandbox.network.messages import Budget, UnreachableError
from mooring.sandbox.network.services import Source

INGRESS: Final = "Ingress"
EGRESS: Final = "Egress"
_COST: Final = 8  # units of work for each label, port and peer
_MOST_WORK: Final = 50_000  # for a client outside of pods, whose work is not accounted for
NamedPort = Callable[[str, str], int]
"""Returns the number of a pod's port by its name and protocol; 0 if there is none."""


class IPBlock(Struct):
    cidr: str = ""
    excluded: list[str] = msgspec.field(default_factory=list, name="except")

    def includes(self, address: str) -> bool:
        return _contains(self.cidr, address) and not any(_contains(one, address) for one in self.excluded)


class Peer(Struct):
    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None

    @property
    def size(self) -> int:
        excluded = 0 if self.ip_block is None else len(self.ip_block.excluded)
        return 1 + excluded + _count_terms(self.pod_selector) + _count_terms(self.namespace_selector)


def _count_terms(selector: LabelSelector | None) -> int:
    """Return how many labels and values a selector has, which are read again for each connection."""
    if selector is None:
        return 0
    expressions = selector.match_expressions
    return len(selector.match_labels) + sum(1 + len(one.values) for one in expressions)


class PolicyPort(Struct):
    port: int | str | None = None
    end_port: int | None = None
    protocol: str = "TCP"


class Rule(Struct):
    ports: list[PolicyPort] = []
    sources: list[Peer] = msgspec.field(default_factory=list, name="from")
    destinations: list[Peer] = msgspec.field(default_factory=list, name="to")

    @property
    def size(self) -> int:
        return 1 + len(self.ports) + sum(one.size for one in (*self.sources, *self.destinations))


class PolicySpec(Struct):
    pod_selector: LabelSelector = LabelSelector()
    policy_types: list[str] = []
    ingress: list[Rule] = []
    egress: list[Rule] = []

    @property
    def size(self) -> int:
        """How much there is to compare with a connection."""
        rules = sum(one.size for one in (*self.ingress, *self.egress))
        return 1 + _count_terms(self.pod_selector) + rules


class NetworkPolicy(KubeObject):
    spec: PolicySpec = msgspec.field(default_factory=PolicySpec)


NETWORK_POLICIES: Final = ApiResource("networking.k8s.io", "v1", "networkpolicies", True, NetworkPolicy)


class Connection(NamedTuple):
    """What is to be connected; `named_port` is for the pod that it ends at."""

    source: Source
    address: str
    port: int
    protocol: str
    named_port: NamedPort


class Policies:
    """The policies of a cluster. What a pod may connect to is decided by the policies that select it, and so
    is what may connect to it; a pod that none selects is not restricted."""

    def __init__(self, cache: Cache) -> None:
        self._policies = cache.follow(NETWORK_POLICIES)
        self._sizes = Counter[str]()  # of all policies of a namespace
        self._policies.subscribe(self._changed)
        self._namespaces = cache.follow(NAMESPACES)
        self._pods = cache.follow(PODS)
        self._pods.index("address", _address)

    def _changed(self, old: NetworkPolicy | None, new: NetworkPolicy | None) -> None:
        if old is not None:
            self._sizes[old.namespace] -= old.spec.size
            if not self._sizes[old.namespace]:
                del self._sizes[old.namespace]
        if new is not None:
            self._sizes[new.namespace] += new.spec.size

    def allow(self, connection: Connection, budget: Budget | None = None) -> bool:
        source, address = connection.source, connection.address
        if not len(self._policies) or source.address == address:
            return True
        client, server = self._pod_at(source.address), self._pod_at(address)
        self._account(filter(None, (client, server)), budget)
        if client is not None and not self._admits(client, EGRESS, server, address, connection):
            return False
        if server is None or (client is None and source.node == server.spec.node_name):
            return True  # whatever policies say, a node reaches its pods
        return self._admits(server, INGRESS, client, source.address, connection)

    def _account(self, pods: Iterable[Pod], budget: Budget | None) -> None:
        """Account for the policies that may apply to pods. Raises UnreachableError where these are too many
        for a client without a budget."""
        work = _COST * sum(self._sizes[pod.namespace] for pod in pods)
        if budget is not None:
            budget.spend(work)
        elif work > _MOST_WORK:
            raise UnreachableError

    def _admits(
        self, selected: Pod, direction: str, peer: Pod | None, address: str, connection: Connection
    ) -> bool:
        """Return whether the policies that select a pod allow a peer in a direction."""
        in_namespace = self._policies.in_namespace(selected.namespace)
        policies = [one for one in in_namespace if _selects(one, selected, direction)]
        for policy in policies:
            for rule in policy.spec.ingress if direction == INGRESS else policy.spec.egress:
                peers = rule.sources if direction == INGRESS else rule.destinations
                if _includes_port(rule.ports, connection) and (
                    not peers or any(self._is_peer(one, peer, address, policy.namespace) for one in peers)
                ):
                    return True
        return not policies

    def _is_peer(self, allowed: Peer, peer: Pod | None, address: str, namespace: str) -> bool:
        if allowed.ip_block is not None:
            return allowed.ip_block.includes(address)
        if peer is None:
            return False
        if allowed.namespace_selector is None:
            in_namespace = peer.namespace == namespace
        else:
            of_peer = self._namespaces.get(peer.namespace)
            labels = {} if of_peer is None else of_peer.metadata.labels
            in_namespace = matches(allowed.namespace_selector, labels)
        if not in_namespace:
            return False
        return allowed.pod_selector is None or matches(allowed.pod_selector, peer.metadata.labels)

    def _pod_at(self, address: str) -> Pod | None:
        return next(iter(self._pods.by("address", address)), None)


def _selects(policy: NetworkPolicy, pod: Pod, direction: str) -> bool:
    spec = policy.spec
    types = spec.policy_types or [INGRESS, *([EGRESS] if spec.egress else [])]
    return direction in types and matches(spec.pod_selector, pod.metadata.labels)


def _includes_port(ports: Sequence[PolicyPort], connection: Connection) -> bool:
    return not ports or any(_is_port(one, connection) for one in ports)


def _is_port(allowed: PolicyPort, connection: Connection) -> bool:
    if allowed.protocol != connection.protocol:
        return False
    if allowed.port is None:
        return True
    if isinstance(allowed.port, str):
        return connection.named_port(allowed.port, allowed.protocol) == connection.port
    return allowed.port <= connection.port <= (allowed.end_port or allowed.port)


def _contains(cidr: str, address: str) -> bool:
    try:
        return IPv4Address(address) in IPv4Network(cidr, strict=False)
    except ValueError:  # IPv6, or no address
        return False


def _address(pod: Pod) -> tuple[str, ...]:
    """Return the address of a pod; those in the network of their node have none of their own."""
    address = pod.status.pod_ip
    return (address,) if address and not pod.spec.host_network and not pod.finished else ()
