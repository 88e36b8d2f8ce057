"""NetworkPolicies."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.errors import Cause, forbidden_value, invalid_value, not_supported, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.addresses import CIDR, Network, network
from mooring.sandbox.apiserver.validation.fields import Causes, optional_choice, port_or_name
from mooring.sandbox.apiserver.validation.labels import label_selector
from mooring.sandbox.apiserver.validation.names import port_number

_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


def network_policy(obj: Tree) -> Causes:
    spec = obj.get("spec") or {}
    yield from label_selector("spec.podSelector", spec.get("podSelector"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _port(f"{at}.ports[{number}]", port)
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(f"{at}.{peers}[{number}]", peer)
    types = spec.get("policyTypes") or []
    if len(types) > len(_TYPES):
        yield invalid_value("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, one in enumerate(types):
        if one not in _TYPES:
            yield not_supported(f"spec.policyTypes[{index}]", one, _TYPES)


def _port(path: str, item: Tree) -> Causes:
    yield from optional_choice(f"{path}.protocol", item.get("protocol"), _PROTOCOLS)
    port, end = item.get("port"), item.get("endPort")
    if port is not None:
        yield from port_or_name(f"{path}.port", port)
    if end is None:
        return
    at = f"{path}.endPort"
    if port is None:
        yield invalid_value(at, end, "may not be specified when `port` is not specified")
    elif isinstance(port, str):
        yield invalid_value(at, end, "may not be specified when `port` is non-numeric")
    else:
        if end < port:
            yield invalid_value(at, port, "must be greater than or equal to `port`")
        for problem in port_number(end):
            yield invalid_value(at, end, problem)


def _peer(path: str, peer: Tree) -> Causes:
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        yield from label_selector(f"{path}.{name}", peer[name])
    block = peer.get("ipBlock")
    if block is not None:
        yield from _block(f"{path}.ipBlock", block)
        if selectors:
            yield forbidden_value(path, "may not specify both ipBlock and another peer")
    elif not selectors:
        yield required(path, "must specify a peer")


def _block(path: str, block: Tree) -> Causes:
    whole = network(block.get("cidr", ""))
    if whole is None:
        yield _no_network(f"{path}.cidr", block["cidr"]) if block.get("cidr") else required(f"{path}.cidr")
        return
    for index, text in enumerate(block.get("except") or ()):
        at, part = f"{path}.except[{index}]", network(text)
        if part is None:
            yield _no_network(at, text)
        elif not _is_strict_subset(part, whole):
            yield invalid_value(at, text, "must be a strict subset of `cidr`")


def _no_network(path: str, text: str) -> Cause:
    return invalid_value(path, text, CIDR)


def _is_strict_subset(part: Network, whole: Network) -> bool:
    return part.network_address in whole and part.prefixlen > whole.prefixlen
