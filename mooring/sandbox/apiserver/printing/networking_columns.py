"""Services, their endpoints, and the ways to them."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.columns import (
    AGE,
    NAME,
    Column,
    Printer,
    at,
    name_of,
    named,
    of,
    wide,
)
from mooring.sandbox.apiserver.printing.texts import (
    NONE,
    UNKNOWN,
    UNSET,
    labels,
    listed,
    marked,
    selector_or_none,
)

_SERVICE: Final = "core_v1.ServiceSpec"
_SLICE: Final = "discovery_v1.EndpointSlice"


def _balanced(obj: Tree) -> list[str]:
    """The addresses of a load balancer."""
    points = dig(obj, "status", "loadBalancer", "ingress") or ()
    return sorted({point.get("ip") or point.get("hostname") or "" for point in points} - {""})


# ---- services -------------------------------------------------------------------------------------


def _cluster_address(service: Tree) -> str:
    found = dig(service, "spec", "clusterIPs")
    return found[0] if found else NONE


def _external_addresses(service: Tree) -> str:
    spec = service.get("spec") or {}
    type, external = spec.get("type"), spec.get("externalIPs") or []
    if type in ("ClusterIP", "NodePort"):
        return ",".join(external) or NONE
    if type == "LoadBalancer":
        return ",".join(_balanced(service) + external) or "<pending>"
    return spec.get("externalName", "") if type == "ExternalName" else UNKNOWN


def _ports(service: Tree) -> str:
    return ",".join(_port(port) for port in dig(service, "spec", "ports") or ()) or NONE


def _port(port: Tree) -> str:
    node_port = port.get("nodePort")
    number = f"{port.get('port', 0)}:{node_port}" if node_port else f"{port.get('port', 0)}"
    return f"{number}/{port.get('protocol', '')}"


# ---- endpoints ------------------------------------------------------------------------------------


def _endpoints(endpoints: Tree) -> str:
    found: list[str] = []
    for subset in endpoints.get("subsets") or ():
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports")
        if not ports:  # of a headless service
            found += addresses
        for port in ports or ():
            found += [_host_port(address, port.get("port", 0)) for address in addresses]
    none = "" if endpoints.get("subsets") else NONE
    return listed(found, none=none)


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _slice_ports(slice: Tree) -> str:
    ports = slice.get("ports") or ()
    return listed([str(port.get("port", port.get("name", "*"))) for port in ports], none=UNSET)


def _slice_endpoints(slice: Tree) -> str:
    endpoints = slice.get("endpoints") or ()
    found = [address for endpoint in endpoints for address in endpoint.get("addresses") or ()]
    return listed(found, none=UNSET)


# ---- ingresses and the rest -----------------------------------------------------------------------


def _hosts(ingress: Tree) -> str:
    rules = dig(ingress, "spec", "rules") or ()
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == 3:
            return f"{','.join(hosts)} + {len(rules) - 3} more..."
        if rule.get("host"):
            hosts.append(rule["host"])
    return ",".join(hosts) or "*"


def _class_name(ingress_class: Tree) -> str:
    name = name_of(ingress_class)
    default = marked(ingress_class, "ingressclass.kubernetes.io/is-default-class")
    return f"{name} (default)" if default else name


def _parameters(ingress_class: Tree) -> str:
    found = dig(ingress_class, "spec", "parameters")
    if found is None:
        return NONE
    kind = ".".join(part for part in (found.get("kind", ""), found.get("apiGroup")) if part is not None)
    return f"{kind}/{found.get('name', '')}"


def _parent(address: Tree) -> str:
    found = dig(address, "spec", "parentRef")
    if found is None:
        return NONE
    resource = ".".join(filter(None, (found.get("resource"), found.get("group")))).lower()
    return "/".join(filter(None, (resource, found.get("namespace"), found.get("name"))))


PRINTERS: Final = {
    "services": Printer(
        NAME,
        Column("Type", at("spec", "type"), f"{_SERVICE}.type"),
        Column("Cluster-IP", of(_cluster_address), f"{_SERVICE}.clusterIP"),
        Column("External-IP", of(_external_addresses), f"{_SERVICE}.externalIPs"),
        Column("Port(s)", of(_ports), f"{_SERVICE}.ports"),
        AGE,
        wide("Selector", of(lambda obj: labels(dig(obj, "spec", "selector"))), f"{_SERVICE}.selector"),
    ),
    "endpoints": Printer(NAME, Column("Endpoints", of(_endpoints), "core_v1.Endpoints.subsets"), AGE),
    "endpointslices.discovery.k8s.io": Printer(
        NAME,
        Column("AddressType", at("addressType"), f"{_SLICE}.addressType"),
        Column("Ports", of(_slice_ports), f"{_SLICE}.ports"),
        Column("Endpoints", of(_slice_endpoints), f"{_SLICE}.endpoints"),
        AGE,
    ),
    "ingresses.networking.k8s.io": Printer(
        NAME,
        Column(
            "Class",
            at("spec", "ingressClassName", default=NONE),
            "The name of the IngressClass resource that should be used for additional configuration",
        ),
        Column(
            "Hosts",
            of(_hosts),
            "Hosts that incoming requests are matched against before the ingress rule",
        ),
        Column(
            "Address",
            of(lambda obj: ",".join(_balanced(obj))),
            "Address is a list containing ingress points for the load-balancer",
        ),
        Column(
            "Ports",
            of(lambda obj: "80, 443" if dig(obj, "spec", "tls") else "80"),
            "Ports of TLS configurations that open",
        ),
        AGE,
    ),
    "ingressclasses.networking.k8s.io": Printer(
        named(of(_class_name)),
        Column(
            "Controller",
            at("spec", "controller"),
            "Controller that is responsible for handling this class",
        ),
        Column("Parameters", of(_parameters), "A reference to a resource with additional parameters"),
        AGE,
    ),
    "networkpolicies.networking.k8s.io": Printer(
        NAME,
        Column(
            "Pod-Selector",
            of(lambda obj: selector_or_none(dig(obj, "spec", "podSelector"))),
            "networking_v1.NetworkPolicySpec.podSelector",
        ),
        AGE,
    ),
    "ipaddresses.networking.k8s.io": Printer(
        NAME, Column("ParentRef", of(_parent), "networking_v1.IPAddressSpec.parentRef")
    ),
    "servicecidrs.networking.k8s.io": Printer(
        NAME,
        Column(
            "CIDRs",
            of(lambda obj: ",".join(dig(obj, "spec", "cidrs") or ())),
            "networking_v1.ServiceCIDRSpec.cidrs",
        ),
        AGE,
    ),
}
