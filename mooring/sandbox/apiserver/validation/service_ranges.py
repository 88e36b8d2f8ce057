"""ServiceCIDRs and IPAddresses."""

from __future__ import annotations

import ipaddress
from typing import Final

from mooring.sandbox.apiserver.errors import invalid_value, required
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.addresses import CIDR, network
from mooring.sandbox.apiserver.validation.fields import IMMUTABLE, Causes, immutable, required_text, text
from mooring.sandbox.apiserver.validation.names import dns_subdomain, path_segment

_MOST: Final = 2  # one of each family


def service_cidr(obj: Tree) -> Causes:
    spec, at = obj.get("spec") or {}, "spec.cidrs"
    cidrs = spec.get("cidrs") or []
    if not cidrs:
        yield required(at, "at least one CIDR required")
        return
    if len(cidrs) > _MOST:
        yield invalid_value(at, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for index, cidr in enumerate(cidrs):
        yield from _canonical_network(f"{at}[{index}]", cidr)
    families = [one.version for one in map(network, cidrs) if one is not None]
    if len(cidrs) == _MOST and families in ([4, 4], [6, 6]):
        why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield invalid_value(at, cidrs, why)


def _canonical_network(path: str, value: str) -> Causes:
    parsed = network(value)
    if parsed is None:
        yield invalid_value(path, value, CIDR)
    elif ipaddress.ip_interface(value).ip != parsed.network_address:
        yield invalid_value(path, value, "must not have bits set beyond the prefix length")
    elif str(parsed) != value:
        yield invalid_value(path, value, f'must be in canonical form ("{parsed}")')


def service_cidr_update(obj: Tree, old: Tree) -> Causes:
    new, before = dig(obj, "spec", "cidrs") or [], dig(old, "spec", "cidrs") or []
    for index, (cidr, earlier) in enumerate(zip(new, before, strict=False)):
        yield from immutable(f"spec.cidrs[{index}]", cidr, earlier)


def address(obj: Tree) -> Causes:
    parent, at = dig(obj, "spec", "parentRef"), "spec.parentRef"
    if parent is None:
        yield required(at)
        return
    if parent.get("group"):
        yield from text(f"{at}.group", parent["group"], dns_subdomain)
    for name in ("resource", "name"):
        yield from required_text(f"{at}.{name}", parent.get(name), path_segment)
    if parent.get("namespace"):
        yield from text(f"{at}.namespace", parent["namespace"], path_segment)


def address_update(obj: Tree, old: Tree) -> Causes:
    new, before = dig(obj, "spec", "parentRef"), dig(old, "spec", "parentRef")
    shown = {
        name.capitalize(): (new or {}).get(name, "") for name in ("group", "resource", "namespace", "name")
    }
    if new != before:
        yield invalid_value("spec.parentRef", shown, IMMUTABLE)
