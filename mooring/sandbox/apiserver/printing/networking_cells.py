"""Cells of services, endpoints, ingresses and addresses."""

from __future__ import annotations

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.shared_cells import NONE, UNKNOWN, UNSET, default_class_name, listed


def load_balancer(points: list[Tree] | None) -> str:
    return ",".join(_balanced(points))


def _balanced(points: list[Tree] | None) -> list[str]:
    """Return the addresses of a load balancer."""
    return sorted({point.get("ip") or point.get("hostname") or "" for point in points or ()} - {""})


def external_addresses(service: Tree) -> str:
    spec = service.get("spec") or {}
    type, external = spec.get("type"), spec.get("externalIPs") or []
    if type in ("ClusterIP", "NodePort"):
        return ",".join(external) or NONE
    if type == "LoadBalancer":
        balanced = _balanced(dig(service, "status", "loadBalancer", "ingress"))
        return ",".join(balanced + external) or "<pending>"
    return spec.get("externalName", "") if type == "ExternalName" else UNKNOWN


def service_ports(ports: list[Tree] | None) -> str:
    return ",".join(_port(port) for port in ports or ()) or NONE


def _port(port: Tree) -> str:
    node_port = port.get("nodePort")
    number = f"{port.get('port', 0)}:{node_port}" if node_port else f"{port.get('port', 0)}"
    return f"{number}/{port.get('protocol', '')}"


def subsets(items: list[Tree] | None) -> str:
    """Return the addresses of Endpoints, each with every port."""
    texts: list[str] = []
    for subset in items or ():
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports")
        if not ports:  # a headless service
            texts += addresses
        for port in ports or ():
            texts += [_host_port(address, port.get("port", 0)) for address in addresses]
    return listed(texts, none="" if items else NONE)


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def slice_ports(ports: list[Tree] | None) -> str:
    return listed([str(port.get("port", port.get("name", "*"))) for port in ports or ()], none=UNSET)


def slice_endpoints(endpoints: list[Tree] | None) -> str:
    addresses = [address for endpoint in endpoints or () for address in endpoint.get("addresses") or ()]
    return listed(addresses, none=UNSET)


def hosts(rules: list[Tree] | None) -> str:
    rules, names = rules or [], list[str]()
    for rule in rules:
        if len(names) == 3:
            return f"{','.join(names)} + {len(rules) - 3} more..."
        if rule.get("host"):
            names.append(rule["host"])
    return ",".join(names) or "*"


def ingress_ports(tls: list[Tree] | None) -> str:
    return "80, 443" if tls else "80"


def ingress_class_name(metadata: Tree) -> str:
    return default_class_name(metadata, "ingressclass.kubernetes.io/is-default-class")


def class_parameters(reference: Tree) -> str:
    kind, group = reference.get("kind", ""), reference.get("apiGroup")
    return f"{kind if group is None else f'{kind}.{group}'}/{reference.get('name', '')}"


def parent_reference(reference: Tree) -> str:
    resource = ".".join(filter(None, (reference.get("resource"), reference.get("group")))).lower()
    return "/".join(filter(None, (resource, reference.get("namespace"), reference.get("name"))))
