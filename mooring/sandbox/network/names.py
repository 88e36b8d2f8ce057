"""The names of a cluster, as its DNS server resolves them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address
from typing import Final, NamedTuple

from mooring.api.workloads import Service, ServicePort
from mooring.sandbox.network.messages import Budget
from mooring.sandbox.network.services import Services

DOMAIN: Final = "cluster.local"
SERVER: Final = "10.96.0.10"
"""The address of the DNS server; nothing else listens there."""
TTL: Final = 30
_MOST_ALIASES: Final = 8
_COST: Final = 4  # units of work for each record, and to find that there is none
_REVERSE: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.in-addr\.arpa")


class DnsRecord(NamedTuple):
    """An answer to a question about a name; names are without the final dot."""

    name: str
    kind: str
    data: str


class Names:
    """Answers questions about names."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def find(self, name: str, kind: str = "A", budget: Budget | None = None) -> list[DnsRecord]:
        """Return the records of a full name: aliases first, then those of the kind."""
        name = name.rstrip(".").lower()
        aliases: list[DnsRecord] = []
        while len(aliases) < _MOST_ALIASES and (target := self._alias(name)):
            aliases.append(DnsRecord(name, "CNAME", f"{target}."))
            name = target
        data = {"A": self._addresses, "SRV": self._ports, "PTR": self._reverse}.get(kind)
        records = [DnsRecord(name, kind, one) for one in dict.fromkeys(data(name, budget) if data else ())]
        if budget is not None:
            budget.spend(_COST * (1 + len(records)))
        return aliases + records

    def _alias(self, name: str) -> str:
        """Return the name that an ExternalName stands for, or ""."""
        match _inner(name, "svc"):
            case [service_name, namespace]:
                service = self._services.find(namespace, service_name)
                if service is not None and service.spec.type == "ExternalName":
                    return service.spec.external_name.rstrip(".").lower()
        return ""

    def _addresses(self, name: str, budget: Budget | None) -> Iterator[str]:
        match _inner(name, "svc"):
            case [service_name, namespace]:
                service = self._services.find(namespace, service_name)
                if service is not None and service.spec.cluster_ip not in ("", "None"):
                    yield service.spec.cluster_ip
                elif service is not None:
                    yield from (one.address for one in self._services.backends(service, None, budget).ready)
            case [host, service_name, namespace]:
                service = self._services.find(namespace, service_name)
                hosts = {} if service is None else self._services.backends(service, None, budget).by_host
                yield from (one.address for one in (hosts[host].endpoints if host in hosts else ()))
        match _inner(name, "pod"):
            case [dashed, _] if _is_address(dashed.replace("-", ".")):
                yield dashed.replace("-", ".")

    def _ports(self, name: str, budget: Budget | None) -> Iterator[str]:
        match _inner(name, "svc"):
            case [port_name, protocol, service_name, namespace]:
                service = self._services.find(namespace, service_name)
                if service is None:
                    return
                if budget is not None:
                    budget.spend(len(service.spec.ports))
                for port in service.spec.ports:
                    if (f"_{port.name}", f"_{(port.protocol or 'TCP').lower()}") == (port_name, protocol):
                        yield from self._servers(service, port, budget)

    def _servers(self, service: Service, port: ServicePort, budget: Budget | None) -> Iterator[str]:
        name = f"{service.name}.{service.namespace}.svc.{DOMAIN}."
        if service.spec.cluster_ip not in ("", "None"):
            yield f"0 100 {port.port} {name}"
            return
        for endpoint in self._services.backends(service, port, budget).ready:
            yield f"0 100 {endpoint.port} {endpoint.host}.{name}"

    def _reverse(self, name: str, budget: Budget | None) -> Iterator[str]:
        match = _REVERSE.fullmatch(name)
        if match is None:
            return
        address = ".".join(reversed(match.groups()))
        service = self._services.at(address)
        if service is not None:
            yield f"{service.name}.{service.namespace}.svc.{DOMAIN}."
        for host, service_name in self._services.with_hostname(address, budget):
            yield f"{host}.{service_name}.svc.{DOMAIN}."


def _inner(name: str, kind: str) -> list[str]:
    """Return the labels of a name before those of the cluster."""
    suffix = f".{kind}.{DOMAIN}"
    return name.removesuffix(suffix).split(".") if name.endswith(suffix) else []


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True
