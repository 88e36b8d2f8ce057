"""The strategy of services: allocation of addresses and node ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Container
from itertools import chain
from socket import inet_ntoa
from typing import Final

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import Cause, internal, invalid, invalid_value
from mooring.sandbox.apiserver.objects import Tree, dig, set_or_drop
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.validation.services import cluster_ips, is_headless, needs_health_check_port

ADDRESSES: Final = ipaddress.IPv4Network("10.96.0.0/16")
_CIDRS: Final = "servicecidrs.networking.k8s.io"
_IP_ADDRESSES: Final = "ipaddresses.networking.k8s.io"
FIRST_ADDRESS: Final = str(ADDRESSES[1])
"""The address of the service `kubernetes`."""
_RESERVED: Final = 256  # the first ones are reserved for requests of a certain address
NODE_PORTS: Final = range(30000, 32768)
_CLUSTER_IP, _TYPE = 0, 1  # indexes into the selectable fields of services


def address_of(service: Record) -> str:
    """Return the address of a service, "" if it has none."""
    address = service.fields[_CLUSTER_IP]
    return "" if address == "None" else address


class ServiceStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        _hand_out(write, spec, {})

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        spec, before = obj["spec"], old["spec"]
        if spec.get("type") == "ExternalName" and before.get("type") != "ExternalName":
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
                if spec.get(name) == before.get(name):
                    spec.pop(name, None)
        elif before.get("type") != "ExternalName":
            _keep_addresses(spec, before)
        if _uses_node_ports(before) and not _uses_node_ports(spec):
            _drop_node_ports(spec, before)
        elif _uses_node_ports(before):
            _keep_node_ports(spec, before)
        _keep_health_check_port(spec, before)
        if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
            obj["status"] = {"loadBalancer": {}}
            spec.pop("allocateLoadBalancerNodePorts", None)
            if spec.get("loadBalancerClass") == before.get("loadBalancerClass"):
                spec.pop("loadBalancerClass", None)
        _hand_out(write, spec, before)


def _hand_out(write: Write, spec: Tree, old: Tree) -> None:
    if spec.get("type") != "ExternalName":
        _settle_families(write, spec)
        if not is_headless(spec) and not old.get("clusterIPs"):
            _settle_address(write, spec)
    if _uses_node_ports(spec):
        _settle_node_ports(write, spec)
    if needs_health_check_port(spec) and not (
        spec.get("healthCheckNodePort") and spec["healthCheckNodePort"] == old.get("healthCheckNodePort")
    ):
        _settle_health_check_port(write, spec)


# ---- addresses ------------------------------------------------------------------------------------


def _settle_families(write: Write, spec: Tree) -> None:
    """Set IPv4, the only family of this cluster; headless services without selector get both. Raises 422."""
    anything = is_headless(spec) and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anything else "SingleStack")
    causes = list(cluster_ips(spec)) or _policy_problems(spec)
    if anything and not causes:
        families = spec.setdefault("ipFamilies", ["IPv4"])
        if len(families) == 1 and spec["ipFamilyPolicy"] != "SingleStack":
            families.append("IPv6" if families == ["IPv4"] else "IPv4")
        return
    causes = causes or _family_problems(spec)
    if causes:
        raise invalid("", "Service", write.name, causes)
    spec.setdefault("ipFamilies", ["IPv4"])


def _policy_problems(spec: Tree) -> list[Cause]:
    if spec["ipFamilyPolicy"] != "SingleStack":
        return []
    why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    several = (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
    return [
        invalid_value("spec.ipFamilyPolicy", "SingleStack", why.format(described))
        for name, described in several
        if len(spec.get(name) or ()) > 1
    ]


def _family_problems(spec: Tree) -> list[Cause]:
    """Return what the service requests that a cluster with IPv4 only lacks."""
    problems = []
    if spec["ipFamilyPolicy"] == "RequireDualStack":
        why = "this cluster is not configured for dual-stack services"
        problems.append(invalid_value("spec.ipFamilyPolicy", "RequireDualStack", why))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family != "IPv4":
            problems.append(
                invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
            )
    return problems


def _others(write: Write) -> list[tuple[str, ...]]:
    """Yield the selectable fields of all other services."""
    table = write.api.store.table("services")
    own = f"{write.namespace}/{write.name}"
    return [record.fields for key, record in table.records.items() if key != own]


def _settle_address(write: Write, spec: Tree) -> None:
    used = write.api.store.table(_IP_ADDRESSES).records
    requested = spec.get("clusterIPs") or []
    if requested:
        _check_address(write, requested, used)
        return
    for network in _ranges(write):
        first, size = int(network.network_address), network.num_addresses
        reserved = min(_RESERVED, size // 2)
        for number in chain(range(reserved, size - 1), range(1, reserved)):
            address = inet_ntoa((first + number).to_bytes(4))  # ipaddress takes four times as long
            if address not in used:
                spec["clusterIP"], spec["clusterIPs"] = address, [address]
                return
    raise internal("failed to allocate a serviceIP: range is full")


def _ranges(write: Write) -> list[ipaddress.IPv4Network]:
    """Return the networks of IPv4 addresses for services: that of the cluster, and those of ServiceCIDRs."""
    table = write.api.store.table(_CIDRS)
    networks = [ADDRESSES]
    if len(table.records) > 1:  # more than that of the cluster
        for record in table.records.values():
            cidr = write.api.read(_CIDRS, record.name) or {}
            if _is_ready(cidr):
                parsed = map(ipaddress.ip_network, cidr["spec"]["cidrs"])
                networks += [one for one in parsed if isinstance(one, ipaddress.IPv4Network)]
    return networks


def _is_ready(cidr: Tree) -> bool:
    conditions = dig(cidr, "status", "conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _check_address(write: Write, requested: list[str], used: Container[str]) -> None:
    try:
        address = ipaddress.ip_address(requested[0])
    except ValueError:
        return  # validation reports it
    if not any(address in network for network in _ranges(write)):
        problem = "the provided network does not match the current range"
    elif requested[0] in used:
        problem = "provided IP is already allocated"
    else:
        return
    why = f"failed to allocate IP {requested[0]}: {problem}"
    raise invalid("", "Service", write.name, [invalid_value("spec.clusterIPs", requested, why)])


def _keep_addresses(spec: Tree, old: Tree) -> None:
    """Keep allocated addresses and ports for clients that do not repeat them."""
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        set_or_drop(spec, "clusterIP", old.get("clusterIP"))
    if spec.get("clusterIP") == old.get("clusterIP") and not spec.get("clusterIPs"):
        set_or_drop(spec, "clusterIPs", old.get("clusterIPs"))
    elif spec.get("clusterIP") and spec.get("clusterIPs") == old.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    for name in ("ipFamilies", "ipFamilyPolicy"):
        if name not in spec and name in old:
            spec[name] = old[name]


# ---- ports on nodes -------------------------------------------------------------------------------


def _uses_node_ports(spec: Tree) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _settle_node_ports(write: Write, spec: Tree) -> None:
    ports, used = spec.get("ports") or (), _used_node_ports(write)
    for index, port in enumerate(ports):
        requested = port.get("nodePort")
        if requested:
            _check_node_port(write, index, requested, used)
    taken = used | {port["nodePort"] for port in ports if port.get("nodePort")}
    by_port: dict[int, int] = {
        port.get("port", 0): port["nodePort"] for port in ports if port.get("nodePort")
    }
    for port in ports:
        if not port.get("nodePort"):
            number = by_port.get(port.get("port", 0)) or next((n for n in NODE_PORTS if n not in taken), 0)
            if not number:
                raise internal("failed to allocate a nodePort: range is full")
            port["nodePort"] = by_port[port.get("port", 0)] = number
            taken.add(number)


def _used_node_ports(write: Write) -> set[int]:
    own = f"{write.namespace}/{write.name}"
    table = write.api.store.table("services")
    used = set()
    for key, record in table.records.items():
        if key != own and record.fields[_TYPE] in ("NodePort", "LoadBalancer"):
            service = write.api.read("services", record.name, record.namespace) or {}
            used |= {port.get("nodePort", 0) for port in service["spec"].get("ports") or ()}
            used.add(service["spec"].get("healthCheckNodePort", 0))
    return used


def _check_node_port(write: Write, index: int, requested: int, used: set[int]) -> None:
    problem = _port_problem(requested, used)
    if problem:
        cause = invalid_value(f"spec.ports[{index}].nodePort", requested, problem)
        raise invalid("", "Service", write.name, [cause])


def _port_problem(requested: int, used: set[int]) -> str:
    if requested not in NODE_PORTS:
        return (
            "provided port is not in the valid range. The range of valid ports is "
            f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
        )
    return "provided port is already allocated" if requested in used else ""


def _settle_health_check_port(write: Write, spec: Tree) -> None:
    """Hand out the port on which nodes report whether they have endpoints of the service."""
    used = _used_node_ports(write) | {port.get("nodePort", 0) for port in spec.get("ports") or ()}
    requested = spec.get("healthCheckNodePort", 0)
    if not requested:
        spec["healthCheckNodePort"] = next((number for number in NODE_PORTS if number not in used), 0)
    elif problem := _port_problem(requested, used):
        raise internal(f"failed to allocate requested HealthCheck NodePort {requested}: {problem}")


def _keep_health_check_port(spec: Tree, old: Tree) -> None:
    number = old.get("healthCheckNodePort")
    if not needs_health_check_port(old) or not number:
        return
    if not needs_health_check_port(spec):
        if spec.get("healthCheckNodePort") == number:
            del spec["healthCheckNodePort"]
    elif not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = number


def _keep_node_ports(spec: Tree, old: Tree) -> None:
    present = {port.get("nodePort") for port in spec.get("ports") or ()}
    before = {port.get("name", ""): port.get("nodePort") for port in old.get("ports") or ()}
    for port in spec.get("ports") or ():
        number = before.get(port.get("name", ""))
        if not port.get("nodePort") and number and number not in present:
            port["nodePort"] = number


def _drop_node_ports(spec: Tree, old: Tree) -> None:
    now, then = ([port.get("nodePort") for port in one.get("ports") or ()] for one in (spec, old))
    if now == then:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if spec.get("externalTrafficPolicy") == old.get("externalTrafficPolicy") and not spec.get("externalIPs"):
        spec.pop("externalTrafficPolicy", None)
