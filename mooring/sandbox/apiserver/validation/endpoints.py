"""Endpoints and EndpointSlices."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from mooring.sandbox.apiserver.errors import duplicate, invalid_value, required, too_many
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.addresses import domain_name, endpoint_address
from mooring.sandbox.apiserver.validation.fields import Causes, Text, immutable, one_of, text
from mooring.sandbox.apiserver.validation.labels import labels
from mooring.sandbox.apiserver.validation.names import (
    dns_label,
    dns_subdomain,
    label_value,
    port_number,
    qualified_name,
)

_FAMILIES: Final = {"IPv4": 4, "IPv6": 6}
_ADDRESS_TYPES: Final = ("FQDN", *_FAMILIES)
_PROTOCOLS: Final = choices("core_v1.ContainerPort.protocol")
_MOST_ENDPOINTS: Final = 1000
_MOST_ADDRESSES: Final = 100
_MOST_PORTS: Final = 20_000
_MOST_HINTS: Final = 8
_MOST_TOPOLOGY_LABELS: Final = 16


def endpoints(obj: Tree) -> Causes:
    for index, subset in enumerate(obj.get("subsets") or ()):
        at, ports = f"subsets[{index}]", subset.get("ports") or ()
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(at, "must specify `addresses` or `notReadyAddresses`")
        for name in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(name) or ()):
                yield from _address(f"{at}.{name}[{number}]", address)
        for number, port in enumerate(ports):
            yield from _port(f"{at}.ports[{number}]", port, named=len(ports) > 1)


def _address(path: str, address: Tree) -> Causes:
    value = address.get("ip", "")
    yield from endpoint_address(f"{path}.ip", value)
    if not _is_address(value):
        yield invalid_value(f"{path}.ip", value, "must be a valid IP address")
    if address.get("hostname"):
        yield from text(f"{path}.hostname", address["hostname"], dns_label)
    if address.get("nodeName") is not None:
        yield from text(f"{path}.nodeName", address["nodeName"], dns_subdomain)


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _port(path: str, port: Tree, *, named: bool) -> Causes:
    if port.get("name"):
        yield from text(f"{path}.name", port["name"], dns_label)
    elif named:
        yield required(f"{path}.name")
    for problem in port_number(port.get("port", 0)):
        yield invalid_value(f"{path}.port", port.get("port", 0), problem)
    yield from _protocols(path, port)


def _protocols(path: str, port: Tree) -> Causes:
    yield from one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
    if port.get("appProtocol") is not None:
        yield from text(f"{path}.appProtocol", port["appProtocol"], qualified_name)


def endpoint_slice(obj: Tree) -> Causes:
    yield from _frame(obj)
    yield from _endpoints(obj)


def endpoint_slice_update(obj: Tree, old: Tree) -> Causes:
    yield from _frame(obj)
    if obj.get("endpoints") != old.get("endpoints"):
        yield from _endpoints(obj)
    yield from immutable("addressType", obj.get("addressType", ""), old.get("addressType", ""))


def _frame(obj: Tree) -> Causes:
    """Validate everything but the endpoints."""
    yield from one_of("addressType", obj.get("addressType"), _ADDRESS_TYPES)
    ports = obj.get("ports") or ()
    if len(ports) > _MOST_PORTS:
        yield too_many("ports", len(ports), _MOST_PORTS)
        return
    names = set()
    for index, port in enumerate(ports):
        at, name = f"ports[{index}]", port.get("name", "")
        if name:
            yield from text(f"{at}.name", name, dns_label)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        yield from _protocols(at, port)


def _endpoints(obj: Tree) -> Causes:
    items, kind = obj.get("endpoints") or (), obj.get("addressType", "")
    if len(items) > _MOST_ENDPOINTS:
        yield too_many("endpoints", len(items), _MOST_ENDPOINTS)
        return
    for index, endpoint in enumerate(items):
        yield from _endpoint(f"endpoints[{index}]", endpoint, kind)


def _endpoint(path: str, endpoint: Tree, kind: str) -> Causes:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        yield required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MOST_ADDRESSES:
        yield too_many(f"{path}.addresses", len(addresses), _MOST_ADDRESSES)
    for index, address in enumerate(addresses):
        at = f"{path}.addresses[{index}]"
        if kind == "FQDN":
            yield from domain_name(at, address)
        elif kind in _FAMILIES:
            if _is_address(address) and ipaddress.ip_address(address).version != _FAMILIES[kind]:
                yield invalid_value(f"{path}.addresses", address, f"must be an {kind} address")
            yield from endpoint_address(at, address)
    if endpoint.get("nodeName") is not None:
        yield from text(f"{path}.nodeName", endpoint["nodeName"], dns_subdomain)
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > _MOST_TOPOLOGY_LABELS:
        yield too_many(f"{path}.deprecatedTopology", len(topology), _MOST_TOPOLOGY_LABELS)
    yield from labels(f"{path}.deprecatedTopology", topology)
    if endpoint.get("hostname") is not None:
        yield from text(f"{path}.hostname", endpoint["hostname"], dns_label)
    hints = endpoint.get("hints") or {}
    yield from _hints(f"{path}.hints.forZones", hints.get("forZones") or (), label_value)
    yield from _hints(f"{path}.hints.forNodes", hints.get("forNodes") or (), dns_subdomain)


def _hints(path: str, items: Sequence[Tree], rule: Text) -> Causes:
    if len(items) > _MOST_HINTS:
        yield too_many(path, len(items), _MOST_HINTS)
        return
    names = set()
    for index, item in enumerate(items):
        at, name = f"{path}[{index}].name", item.get("name", "")
        if name in names:
            yield duplicate(at, name)
        names.add(name)
        yield from text(at, name, rule)
