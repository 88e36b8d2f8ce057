"""The network: from an address and a port to the program that listens there, and back with its answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Final, NamedTuple, Protocol

from mooring.sandbox.network.backends import Endpoint
from mooring.sandbox.network.messages import (
    LARGEST,
    LONGEST_FORM,
    TCP,
    Budget,
    NetworkError,
    OutsideError,
    Query,
    RefusedError,
    Reply,
    Speech,
    UnreachableError,
)
from mooring.sandbox.network.names import DnsRecord, Names
from mooring.sandbox.network.node_proxies import HEALTH_PORT, STATUS_PORT, NodeProxies
from mooring.sandbox.network.policies import Connection, Policies
from mooring.sandbox.network.services import Services, Source, port_of

_OWN: Final = IPv4Network("10.0.0.0/8")
"""The addresses of nodes, pods and Services."""
_MOST_CAUSED: Final = 200  # requests that servers make to answer one
_DEEPEST: Final = 8  # servers that ask others in a row
_COST: Final = 40  # units of work for each connection
_COMPONENT_COST: Final = 2_000  # for each request to a component
_FIRST_PORT, _PORTS = 32768, 28232
"""Those of clients."""


class Destination(NamedTuple):
    """Where a connection ends. `dialed` is the address that the client named: it may be a loopback."""

    address: str
    port: int
    protocol: str
    dialed: str


class Hosts(Protocol):
    """The nodes and pods of a cluster, with the programs that serve there."""

    def node_at(self, address: str) -> str:
        """Return the name of the node that has an address, or ""."""
        ...

    def listens(self, destination: Destination, budget: Budget | None = None) -> bool:
        """Whether something listens. Raises UnreachableError if there is no such host."""
        ...

    def speech(self, destination: Destination) -> Speech:
        """Return what the program that listens understands. Raises NetworkError."""
        ...

    def named_port(self, address: str, name: str, protocol: str) -> int:
        """Return the number of a port by the name that a container gives it; 0 if there is none."""
        ...

    def sockets(self, address: str, budget: Budget | None = None) -> list[tuple[str, str, int]]:
        """Return the protocol, address and port of each socket that listens at a host."""
        ...

    def answer(self, destination: Destination, query: Query, budget: Budget | None = None) -> Reply:
        """Return the answer of the program that listens, at the expense of its client. Raises
        NetworkError."""
        ...


class Components(Protocol):
    """The parts of the cluster that serve without a pod."""

    def find(self, destination: Destination, node: str) -> Callable[[Query], Reply] | None:
        """Return what answers at a destination, which may be a node's; None if nothing does."""
        ...


class NoComponents:
    """No part of the cluster is reached by its pods."""

    def find(self, destination: Destination, node: str) -> Callable[[Query], Reply] | None:
        return None


class Network:
    """What clients in the cluster reach. Programs answer at once and without I/O, so everything is done when
    a method returns; how much they may cause is bounded."""

    def __init__(self, services: Services, hosts: Hosts, policies: Policies) -> None:
        self.services = services
        self._names = Names(services)
        self._hosts = hosts
        self._policies = policies
        self._proxies = NodeProxies(services, services.clock)
        self.components: Components = NoComponents()
        self._connections = 0
        self._depth = self._caused = 0

    def find_records(self, name: str, kind: str = "A", budget: Budget | None = None) -> list[DnsRecord]:
        return self._names.find(name, kind, budget)

    def connect(
        self, source: Source, address: str, port: int, protocol: str = TCP, budget: Budget | None = None
    ) -> Destination:
        """Return where a connection ends. Raises NetworkError."""
        if budget is not None:
            budget.spend(_COST)
        if protocol not in ("TCP", "UDP") or not 0 < port < 65536:
            raise RefusedError
        try:
            ip = IPv4Address(address)
        except AddressValueError:
            raise OutsideError from None
        host = source.address if ip.is_loopback else str(ip)
        destination = self._translate(source, Destination(host, port, protocol, str(ip)), budget)
        host, has_component = destination.address, self._find_component(destination) is not None
        if not has_component and (
            not host or (IPv4Address(host) not in _OWN and not self._hosts.node_at(host))
        ):
            raise OutsideError
        named_port = partial(self._hosts.named_port, host)
        connection = Connection(source, host, destination.port, protocol, named_port)
        if not self._policies.allow(connection, budget):
            raise UnreachableError  # network plugins drop what is not allowed
        if not has_component and not self._hosts.listens(destination, budget):
            raise RefusedError
        return destination

    def find_sockets(self, source: Source, budget: Budget | None = None) -> list[tuple[str, str, int]]:
        """Return the protocol, address and port of each socket that listens at the host of a client. Node
        ports have none: kube-proxy translates them."""
        sockets = self._hosts.sockets(source.address, budget)
        if self._hosts.node_at(source.address):
            sockets += [("TCP", "127.0.0.1", STATUS_PORT), ("TCP", "*", HEALTH_PORT)]
        return sorted(sockets)

    def speech(self, source: Source, address: str, port: int) -> Speech:
        """Return what the program understands that is reached by TCP. Raises NetworkError."""
        destination = self.connect(source, address, port)
        return Speech.HTTP if self._find_component(destination) else self._hosts.speech(destination)

    def ask(
        self,
        source: Source,
        address: str,
        port: int,
        query: Query,
        protocol: str = TCP,
        budget: Budget | None = None,
    ) -> Reply:
        """Send a request and return the answer; servers work at the expense of the client. Raises
        NetworkError."""
        destination = self.connect(source, address, port, protocol, budget)
        self._connections += 1
        peer = f"{source.address}:{_FIRST_PORT + self._connections % _PORTS}"
        if len(query.body) > LARGEST:
            return Reply(413, b"the body exceeds 1 MiB\n")
        if query.is_form and len(query.body) > LONGEST_FORM:
            return Reply(413, b"the form exceeds 128 KiB\n")
        self._caused = self._caused + 1 if self._depth else 0
        if self._depth >= _DEEPEST or self._caused > _MOST_CAUSED:
            raise UnreachableError
        self._depth += 1
        try:
            reply = self._answer(destination, query._replace(peer=peer), budget)
        finally:
            self._depth -= 1
        if budget is not None:
            budget.spend(len(reply.body) // 32)
        return reply if len(reply.body) <= LARGEST else Reply(502, b"the answer exceeds 1 MiB\n")

    def _answer(self, destination: Destination, query: Query, budget: Budget | None) -> Reply:
        component = self._find_component(destination)
        if component is None:
            return self._hosts.answer(destination, query, budget)
        if budget is not None:
            budget.spend(_COMPONENT_COST)
        return component(query)

    def _find_component(self, destination: Destination) -> Callable[[Query], Reply] | None:
        node = self._hosts.node_at(destination.address)
        if node and destination.protocol == TCP:
            proxy = self._proxies.find(destination.dialed, destination.port, node)
            if proxy is not None:
                return proxy
        return self.components.find(destination, node)

    def _translate(self, source: Source, dialed: Destination, budget: Budget | None) -> Destination:
        """Return where a connection to a Service or a node port ends; others are returned as they are.
        Raises NetworkError."""
        address, port, protocol, _ = dialed
        service = self.services.at(address)
        if service is not None:
            if budget is not None:
                budget.spend(len(service.spec.ports) // 4)
            served = port_of(service, port, protocol)
            if served is None:
                raise RefusedError
            spec = service.spec
            is_local = spec.internal_traffic_policy == "Local" and address == spec.cluster_ip
            return _behind(self.services.choose(service, served, source, budget, is_local=is_local), protocol)
        node = self._hosts.node_at(address)
        behind = self.services.at_node_port(protocol, port) if node else None
        if behind is None or self._hosts.listens(dialed, budget):
            return dialed
        # what comes from a node or its pods is not external to that node
        is_local = behind[0].spec.external_traffic_policy == "Local" and source.node != node
        source = source._replace(node=node)
        return _behind(self.services.choose(*behind, source, budget, is_local=is_local), protocol)


def _behind(endpoint: Endpoint, protocol: str) -> Destination:
    return Destination(endpoint.address, endpoint.port, protocol, endpoint.address)


def dial_error(error: NetworkError, address: str, port: int, protocol: str = TCP) -> str:
    """Return what a program in Go reports."""
    why = "connect: connection refused" if isinstance(error, RefusedError) else "i/o timeout"
    return f"dial {protocol.lower()} {address}:{port}: {why}"
