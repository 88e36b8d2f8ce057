"""Services: which pod a connection to an address and a port ends at, as kube-proxy decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from mooring.api.kinds import NAMESPACES, NODES, SERVICES
from mooring.api.workloads import Service, ServicePort
from mooring.client.cache import Cache
from mooring.sandbox.network.backends import Backends, Choice, Endpoint, KeptBackends
from mooring.sandbox.network.messages import Budget, RefusedError, UnreachableError
from mooring.sandbox.network.slices import SERVICE_NAME, SLICES, EndpointSlice

ZONE: Final = "topology.kubernetes.io/zone"
K = TypeVar("K")
V = TypeVar("V")

_PROXY_NAME: Final = "service.kubernetes.io/service-proxy-name"
HEADLESS: Final = "service.kubernetes.io/headless"
_AFFINITY_SECONDS: Final = 10800
_MOST: Final = 10_000  # turns and clients that are remembered
_MOST_EXAMINED: Final = (
    20_000  # endpoints of a Service, and ports of its EndpointSlices; others are not reached
)
_MOST_NAMED: Final = 20  # EndpointSlices that are searched for the names of an address


class Source(NamedTuple):
    """Where a connection comes from."""

    address: str = ""
    node: str = ""


class Services:
    """Finds Services and what is behind them."""

    def __init__(self, cache: Cache, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._services = cache.follow(SERVICES)
        self._services.index("address", _addresses)
        self._services.index("node port", _node_ports)
        self._services.index("health port", _health_port)
        self._slices = cache.follow(SLICES)
        self._slices.index("of service", _service_key)
        self._slices.index("hostname", _named_addresses)
        self._backends = KeptBackends()
        self._slices.subscribe(self._forget)
        self._nodes = cache.follow(NODES)
        self._namespaces = cache.follow(NAMESPACES)
        self._turns: dict[tuple[str, str, int], int] = {}
        self._clients: dict[tuple[str, str], tuple[str, float]] = {}
        """The address that a client of a Service had, and when it was last used."""

    def _forget(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for slice in (old, new):
            for key in () if slice is None else _service_key(slice):
                self._backends.forget(key)

    def find(self, namespace: str, name: str) -> Service | None:
        return self._services.get(f"{namespace}/{name}")

    def has_namespace(self, name: str) -> bool:
        return self._namespaces.get(name) is not None

    def at(self, address: str) -> Service | None:
        """Return the Service that has an address."""
        return self._services.first("address", address)

    def at_health_port(self, port: int) -> Service | None:
        """Return the Service whose load balancers ask nodes at a port whether they have pods of it."""
        return next(iter(self._services.by("health port", str(port))), None)

    def count_ready(self, service: Service, node: str) -> int:
        """Return how many ready endpoints of a Service are on a node."""
        if not service.spec.ports:
            return 0
        there = self.backends(service, service.spec.ports[0]).on_node(node)
        return sum(one.is_ready for one in there.endpoints)

    def at_node_port(self, protocol: str, port: int) -> tuple[Service, ServicePort] | None:
        for service in self._services.by("node port", f"{protocol}/{port}"):
            for one in service.spec.ports:
                if one.node_port == port and (one.protocol or "TCP") == protocol:
                    return service, one
        return None

    def backends(self, service: Service, port: ServicePort | None, budget: Budget | None = None) -> Backends:
        """Return what is behind a port, or without one behind a headless Service."""
        key = ("", "", 0) if port is None else (port.name, port.protocol or "TCP", port.port)
        return self._backends.get(service.key, key, lambda: self._endpoints(service, port), budget)

    def _endpoints(self, service: Service, port: ServicePort | None) -> Iterator[Endpoint]:
        left = _MOST_EXAMINED
        for slice in self._slices.by("of service", service.key):
            ports = slice.ports or ()
            left -= 1 + len(ports)
            if left < 0:
                return
            numbers = [0] if port is None else [one.get("port") for one in ports if _is_port(one, port)]
            is_ignored = HEADLESS in slice.metadata.labels and service.spec.cluster_ip not in ("", "None")
            if slice.address_type != "IPv4" or not numbers or is_ignored:
                continue
            for endpoint in slice.endpoints or ():
                for address in endpoint.get("addresses") or ():
                    left -= 1
                    if left < 0:
                        return
                    yield Endpoint(address, numbers[0] or (0 if port is None else port.port), endpoint)

    def with_hostname(self, address: str, budget: Budget | None) -> Iterator[tuple[str, str]]:
        """Yield the host names that an address has, each with "SERVICE.NAMESPACE"."""
        for slice in self._slices.by("hostname", address)[:_MOST_NAMED]:
            endpoints = slice.endpoints or ()
            if budget is not None:
                budget.spend(2 * len(endpoints))
            for endpoint in endpoints:
                if endpoint.get("hostname") and address in endpoint["addresses"]:
                    yield endpoint["hostname"], f"{slice.metadata.labels.get(SERVICE_NAME)}.{slice.namespace}"

    def choose(
        self,
        service: Service,
        port: ServicePort,
        source: Source,
        budget: Budget | None = None,
        *,
        is_local: bool = False,
    ) -> Endpoint:
        """Return the endpoint for a new connection; with `is_local`, one on the node of the client. Raises
        RefusedError and UnreachableError."""
        backends = self.backends(service, port, budget)
        if not backends.all.endpoints:
            raise RefusedError
        node = self._nodes.get(source.node)
        zone = None if node is None else node.metadata.labels.get(ZONE)
        choice = backends.on_node(source.node) if is_local else backends.near(source.node, zone)
        if not choice.endpoints:
            raise UnreachableError  # kube-proxy drops these
        return self._stay(service, source, choice) or self._take_turn(service, port, choice)

    def _stay(self, service: Service, source: Source, choice: Choice) -> Endpoint | None:
        """Return the endpoint that a client has used before, if the Service wants that."""
        spec, key, now = service.spec, (service.uid, source.address), self.clock()
        if spec.session_affinity != "ClientIP":
            self._clients.pop(key, None)
            return None
        address, used = self._clients.get(key, ("", now))
        config = (spec.session_affinity_config or {}).get("clientIP") or {}
        if now - used >= (config.get("timeoutSeconds") or _AFFINITY_SECONDS):
            address = ""
        endpoint = choice.at.get(address) or self._take_turn(service, None, choice)
        _remember(self._clients, key, (endpoint.address, now))
        return endpoint

    def _take_turn(self, service: Service, port: ServicePort | None, choice: Choice) -> Endpoint:
        key = service.uid, "" if port is None else port.protocol, 0 if port is None else port.port
        turn = self._turns.get(key, 0)
        _remember(self._turns, key, turn + 1)
        return choice.endpoints[turn % len(choice.endpoints)]


def port_of(service: Service, number: int, protocol: str) -> ServicePort | None:
    """Return the port of a Service by its number."""
    matching = (
        one for one in service.spec.ports if one.port == number and (one.protocol or "TCP") == protocol
    )
    return next(matching, None)


def _remember(entries: dict[K, V], key: K, value: V) -> None:
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > _MOST:
        del entries[next(iter(entries))]


def _is_port(tree: dict[str, Any], port: ServicePort) -> bool:
    return (tree.get("name") or "") == port.name and (tree.get("protocol") or "TCP") == (
        port.protocol or "TCP"
    )


def _addresses(service: Service) -> tuple[str, ...]:
    """Return the addresses that lead to a Service."""
    if _is_left_to_others(service):
        return ()
    ingress = (service.status.load_balancer or {}).get("ingress") or ()
    addresses = [service.spec.cluster_ip, *service.spec.external_ips]
    addresses += [one.get("ip") or "" for one in ingress]
    return tuple(dict.fromkeys(one for one in addresses if one and one != "None"))


def _is_left_to_others(service: Service) -> bool:
    """Whether kube-proxy ignores a Service."""
    return any(label in service.metadata.labels for label in (_PROXY_NAME, HEADLESS))


def _health_port(service: Service) -> tuple[str, ...]:
    port = service.spec.health_check_node_port
    return (str(port),) if port else ()


def _node_ports(service: Service) -> tuple[str, ...]:
    ports = () if _is_left_to_others(service) else service.spec.ports
    return tuple(f"{one.protocol or 'TCP'}/{one.node_port}" for one in ports if one.node_port)


def _named_addresses(slice: EndpointSlice) -> tuple[str, ...]:
    named = [one for one in slice.endpoints or () if one.get("hostname")]
    return tuple(dict.fromkeys(address for one in named for address in one["addresses"]))


def _service_key(slice: EndpointSlice) -> tuple[str, ...]:
    name = slice.metadata.labels.get(SERVICE_NAME)
    return (f"{slice.namespace}/{name}",) if name else ()
