"""Host names, networks and the addresses of endpoints."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from mooring.sandbox.apiserver.errors import invalid_value, required
from mooring.sandbox.apiserver.validation.fields import Causes, ip_address, text
from mooring.sandbox.apiserver.validation.names import dns_label, dns_subdomain

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD: Final = re.compile(rf"\*\.{_SUBDOMAIN}", re.ASCII)
_WILDCARD_FORM: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
    "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character "
    rf"(e.g. '*.example.com', regex used for validation is '\*\.{_SUBDOMAIN}')"
)
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PATH: Final = re.compile(_HTTP_PATH, re.ASCII)


def host_name(path: str, value: str) -> Causes:
    """Validate the host of an ingress, which may start with a wildcard."""
    yield from text(path, value, _wildcard if "*" in value else dns_subdomain)


def _wildcard(value: str) -> Sequence[str]:
    problems = [] if len(value) <= 253 else ["must be no more than 253 characters"]
    return problems if _WILDCARD.fullmatch(value) else [*problems, _WILDCARD_FORM]


def is_ip(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def domain_name(path: str, value: str) -> Causes:
    """Validate a fully qualified domain name."""
    if not value:
        yield required(path)
        return
    name = value.removesuffix(".")
    problems = dns_subdomain(name)
    if problems:
        yield invalid_value(path, name, ",".join(problems))
    elif "." not in name:
        why = "should be a domain with at least two segments separated by dots"
        yield invalid_value(path, name, why)
    else:
        for label in name.split("."):
            if problems := dns_label(label):
                yield invalid_value(path, label, ",".join(problems))
                return


def domain_prefixed_path(path: str, value: str) -> Causes:
    """Validate a name such as example.com/controller."""
    if not value:
        yield required(path)
        return
    domain, _, rest = value.partition("/")
    if not domain or not rest:
        yield invalid_value(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from text(path, domain, dns_subdomain)
    if not _PATH.fullmatch(rest):
        yield invalid_value(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH}')")


def network(value: str) -> Network | None:
    """Parse a network, whose address may have bits beyond the mask; None if it is none."""
    try:
        return ipaddress.ip_network(value, strict=False) if "/" in value else None
    except ValueError:
        return None


def endpoint_ip(path: str, value: str) -> Causes:
    """Reject addresses that are no endpoints; `value` is a valid address."""
    address = ipaddress.ip_address(value)
    if address.is_unspecified:
        yield invalid_value(path, value, f"may not be unspecified ({value})")
    elif address.is_loopback:
        yield invalid_value(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    elif address.is_link_local:
        yield invalid_value(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    elif any(address in one for one in _LINK_LOCAL_MULTICAST if one.version == address.version):
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        yield invalid_value(path, value, why)


_LINK_LOCAL_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def endpoint_address(path: str, value: str) -> Causes:
    """Validate an address of Endpoints or of an EndpointSlice."""
    problems = list(ip_address(path, value))
    yield from problems or endpoint_ip(path, value)
