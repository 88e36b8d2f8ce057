"""Services."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from mooring.sandbox.apiserver.errors import (
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
)
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.addresses import CIDR, endpoint_address, network
from mooring.sandbox.apiserver.validation.fields import (
    Causes,
    ip_address,
    one_of,
    optional_choice,
    port_or_name,
    text,
)
from mooring.sandbox.apiserver.validation.labels import labels
from mooring.sandbox.apiserver.validation.names import dns_label, dns_subdomain, port_number, qualified_name

TYPES: Final = choices("core_v1.ServiceSpec.type")
_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = choices("core_v1.ServiceSpec.ipFamilyPolicy")
_TRAFFIC_POLICIES: Final = choices("core_v1.ServiceSpec.internalTrafficPolicy")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY: Final = 86400


def service(obj: Tree) -> Causes:
    spec = obj["spec"]
    kind, headless, ports = spec.get("type", ""), is_headless(spec), spec.get("ports") or ()
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        yield invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        yield from _external_name(spec)
    yield from _ports(ports)
    yield from labels("spec.selector", spec.get("selector"))
    affinities = choices("core_v1.ServiceSpec.sessionAffinity")
    yield from one_of("spec.sessionAffinity", spec.get("sessionAffinity"), affinities)
    if spec.get("sessionAffinity") == "ClientIP":
        yield from _client_ip(spec)
    if kind != "ExternalName":
        yield from cluster_ips(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from endpoint_address(f"spec.externalIPs[{index}]", address)
    yield from one_of("spec.type", kind, TYPES)
    yield from _unique_ports(kind, ports)
    yield from _traffic(spec)
    yield from _load_balancer(spec)


def is_headless(spec: Tree) -> bool:
    return bool(spec.get("clusterIPs")) and bool(spec["clusterIPs"][0] == "None")


def _external_name(spec: Tree) -> Causes:
    why = "may not be set for ExternalName services"
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield forbidden_value(f"spec.{name}", why)
    target = spec.get("externalName", "").removesuffix(".")
    if target:
        yield from text("spec.externalName", target, dns_subdomain)
    else:
        yield required("spec.externalName")


def _ports(ports: Sequence[Tree]) -> Causes:
    names = set()
    for index, port in enumerate(ports):
        at, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            yield from text(f"{at}.name", name, dns_label)
            if name in names:
                yield duplicate(f"{at}.name", name)
            names.add(name)
        elif len(ports) > 1:
            yield required(f"{at}.name")
        for problem in port_number(port.get("port", 0)):
            yield invalid_value(f"{at}.port", port.get("port", 0), problem)
        yield from one_of(f"{at}.protocol", port.get("protocol"), choices("core_v1.ServicePort.protocol"))
        yield from port_or_name(f"{at}.targetPort", port.get("targetPort", 0))
        if port.get("appProtocol") is not None:
            yield from text(f"{at}.appProtocol", port["appProtocol"], qualified_name)


def _unique_ports(kind: str, ports: Sequence[Tree]) -> Causes:
    seen: set[tuple[str, int]] = set()
    on_nodes: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at, protocol, node_port = f"spec.ports[{index}]", port.get("protocol", ""), port.get("nodePort", 0)
        if node_port and kind == "ClusterIP":
            yield forbidden_value(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if node_port and (protocol, node_port) in on_nodes:
            yield duplicate(f"{at}.nodePort", node_port)
        on_nodes.add((protocol, node_port))
        number = port.get("port", 0)
        if (protocol, number) in seen:
            yield duplicate(at, _port_as_shown(protocol, number))
        seen.add((protocol, number))


def _port_as_shown(protocol: str, number: int) -> Tree:
    shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number}
    return {**shown, "TargetPort": 0, "NodePort": 0}


def _client_ip(spec: Tree) -> Causes:
    at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = dig(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
        yield invalid_value(at, seconds, f"must be greater than 0 and less than {_LONGEST_AFFINITY}")


def cluster_ips(spec: Tree) -> Causes:
    """Validate the addresses and families of a service, which may be left out."""
    single, several = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if single and not several:
        yield required("spec.clusterIPs")
    elif single and several[0] != single:
        yield invalid_value("spec.clusterIPs", several, "first value must match `clusterIP`")
    elif several and not single:
        yield invalid_value("spec.clusterIPs", several, "must be empty when `clusterIP` is not specified")
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in families[:index]:
            yield duplicate(f"spec.ipFamilies[{index}]", family)
    yield from optional_choice("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), _FAMILY_POLICIES)
    problems = [
        cause
        for index, address in enumerate(several)
        if address != "None" or index
        for cause in ip_address(f"spec.clusterIPs[{index}]", address)
    ]
    yield from problems
    if not problems and not is_headless(spec):
        yield from _families_fit(several, families)


def _families_fit(addresses: Sequence[str], families: Sequence[str]) -> Causes:
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        actual = f"IPv{ipaddress.ip_address(address).version}"
        if actual != family:
            why = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield invalid_value(f"spec.clusterIPs[{index}]", address, why)


def _traffic(spec: Tree) -> Causes:
    kind, external = spec.get("type", ""), spec.get("externalTrafficPolicy", "")
    reachable = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if not reachable and external:
        why = "may only be set for externally-accessible services"
        yield invalid_value("spec.externalTrafficPolicy", external, why)
    elif reachable:
        yield from one_of("spec.externalTrafficPolicy", external, _TRAFFIC_POLICIES)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        why = "may only be used when `type` is 'LoadBalancer'"
        yield forbidden_value("spec.allocateLoadBalancerNodePorts", why)
    internal = spec.get("internalTrafficPolicy")
    yield from optional_choice("spec.internalTrafficPolicy", internal, _TRAFFIC_POLICIES)
    yield from optional_choice("spec.trafficDistribution", spec.get("trafficDistribution"), _DISTRIBUTIONS)


def needs_health_check_port(spec: Tree) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _load_balancer(spec: Tree) -> Causes:
    balanced, elsewhere = spec.get("type") == "LoadBalancer", "may only be used when `type` is 'LoadBalancer'"
    port = spec.get("healthCheckNodePort", 0)
    if port and not needs_health_check_port(spec):
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid_value("spec.healthCheckNodePort", port, why)
    ranges = spec.get("loadBalancerSourceRanges")
    if ranges and not balanced:
        yield forbidden_value("spec.LoadBalancerSourceRanges", elsewhere)
    elif ranges:
        for index, one in enumerate(ranges):
            if network(one.strip()) is None:
                yield invalid_value(f"spec.LoadBalancerSourceRanges[{index}]", one, CIDR)
    name = spec.get("loadBalancerClass")
    if name is not None and not balanced:
        yield forbidden_value("spec.loadBalancerClass", elsewhere)
    elif name is not None:
        yield from text("spec.loadBalancerClass", name, qualified_name)


def service_status(obj: Tree, old: Tree) -> Causes:
    if obj["spec"].get("type") != "LoadBalancer" and dig(obj, "status", "loadBalancer", "ingress"):
        why = "may only be used when `spec.type` is 'LoadBalancer'"
        yield forbidden_value("status.loadBalancer.ingress", why)


def service_update(obj: Tree, old: Tree) -> Causes:
    new, before = obj["spec"].get("clusterIPs") or [], old["spec"].get("clusterIPs") or []
    external = "ExternalName" in (obj["spec"].get("type"), old["spec"].get("type"))
    if not external and before and (not new or new[0] != before[0]):
        why = "may not change once set" if new else "primary clusterIP can not be unset"
        yield invalid_value("spec.clusterIPs[0]", new or None, why)
    yield from service(obj)
