"""Kubernetes' libraries for IP addresses, CIDRs, URLs and named formats."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from mooring.cel.cel_errors import CelError, no_such_overload
from mooring.cel.overloads import overloads
from mooring.cel.values import NONE, Extension, Optional

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Address(Extension):
    __slots__ = ("address",)
    type_name = "net.IP"
    native_name = "IP"

    def __init__(self, address: _Address) -> None:
        self.address = address

    def equals(self, other: Any) -> bool:
        if type(other) is not Address:
            raise no_such_overload()
        return bool(self.address == other.address)

    def __str__(self) -> str:
        return str(self.address)


class Network(Extension):
    """A network with the address it was written with: 192.168.1.5/24 keeps the 5."""

    __slots__ = ("address", "network")
    type_name = "net.CIDR"
    native_name = "CIDR"

    def __init__(self, address: _Address, network: _Network) -> None:
        self.address = address
        self.network = network

    def equals(self, other: Any) -> bool:
        if type(other) is not Network:
            raise no_such_overload()
        return (self.address, self.network) == (other.address, other.network)

    def __str__(self) -> str:
        return f"{self.address}/{self.network.prefixlen}"


class Url(Extension):
    __slots__ = ("parts",)
    type_name = "kubernetes.URL"
    native_name = "URL"

    def __init__(self, parts: SplitResult) -> None:
        self.parts = parts

    def equals(self, other: Any) -> bool:
        if type(other) is not Url:
            raise no_such_overload()
        return self.parts == other.parts


class Format(Extension):
    """A named format, against which `validate` checks a string."""

    __slots__ = ("check", "name")
    type_name = "kubernetes.NamedFormat"
    native_name = "Format"

    def __init__(self, name: str, check: Callable[[str], list[str]]) -> None:
        self.name = name
        self.check = check

    def equals(self, other: Any) -> bool:
        if type(other) is not Format:
            raise no_such_overload()
        return self.name == other.name


# ---- addresses


def _parse_address(text: str) -> _Address:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        problem = f'ParseAddr("{text}"): unable to parse IP'
        raise CelError(f'IP Address "{text}" parse error during conversion from string: {problem}') from None
    if "%" in text:
        raise CelError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _parses(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def evaluate(text: str) -> bool:
        try:
            parse(text)
        except CelError:
            return False
        return True

    return evaluate


def _parse_network(text: str) -> Network:
    address, slash, bits = text.partition("/")
    problem = "network address parse error during conversion from string: " * 2  # so cel-go writes it
    if not slash or not bits.isdecimal() or (len(bits) > 1 and bits.startswith("0")):
        raise CelError(f"{problem}netip.ParsePrefix(\"{text}\"): no '/'" if not slash else f"{problem}{text}")
    try:
        network = ipaddress.ip_network(text, strict=False)
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise CelError(f'{problem}netip.ParsePrefix("{text}"): unable to parse') from None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Network(parsed, network)


def _contains_address(network: Network, address: Address) -> bool:
    return address.address in network.network


def _contains_text(network: Network, text: str) -> bool:
    try:
        return _contains_address(network, Address(_parse_address(text)))
    except CelError:
        raise no_such_overload() from None


def _contains_network(network: Network, other: Network) -> bool:
    outer, inner = network.network, other.network
    return outer.version == inner.version and other.address in outer and outer.prefixlen <= inner.prefixlen


def _test(name: str) -> Callable[[Address], bool]:
    return lambda value: bool(getattr(value.address, name))


def _link_local_multicast(value: Address) -> bool:
    link_local = "224.0.0.0/24" if value.address.version == 4 else "ff02::/16"
    return value.address in ipaddress.ip_network(link_local)


def _global_unicast(value: Address) -> bool:
    address = value.address
    broadcast = str(address) == "255.255.255.255"
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not broadcast and not special


# ---- URLs


def _parse_url(text: str) -> Url:
    problem = "URL parse error during conversion from string: "
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise CelError(f'{problem}parse "{text}": {error}') from None
    if not parts.scheme and not text.startswith("/"):
        raise CelError(f'{problem}parse "{text}": invalid URI for request')
    return Url(parts)


def _host(url: Url) -> str:
    return url.parts.netloc.rpartition("@")[2]


# ---- named formats

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", re.ASCII)


def _shaped(pattern: re.Pattern[str], longest: int, problem: str) -> Callable[[str], list[str]]:
    def check(text: str) -> list[str]:
        problems = [] if pattern.fullmatch(text) else [problem]
        return [*problems, f"must be no more than {longest} characters"] if len(text) > longest else problems

    return check


def _qualified(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    problems = []
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        problems.append("prefix part must be a valid DNS subdomain")
    if len(name) > 63 or not _QUALIFIED.fullmatch(name):
        problems.append("name part must be a valid label name")
    return problems


def _decodes(decode: Callable[[str], Any], problem: str) -> Callable[[str], list[str]]:
    def check(text: str) -> list[str]:
        try:
            decode(text)
        except (ValueError, binascii.Error, CelError):
            return [problem]
        return []

    return check


_LABEL_PROBLEM = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
_SUBDOMAIN_PROBLEM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
)
_1035_PROBLEM = "a DNS-1035 label must start with an alphabetic character"
_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAMES = {
    "dns1123Label": _shaped(_LABEL, 63, _LABEL_PROBLEM),
    "dns1123Subdomain": _shaped(_SUBDOMAIN, 253, _SUBDOMAIN_PROBLEM),
    "dns1035Label": _shaped(_1035, 63, _1035_PROBLEM),
}


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The check of a name that more will be appended to, so it may end with a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


_FORMATS = {
    name: Format(name, check)
    for name, check in {
        **_NAMES,
        **{f"{name}Prefix": _prefix(check) for name, check in _NAMES.items()},
        "qualifiedName": _qualified,
        "labelValue": _shaped(
            _VALUE, 63, "a valid label must be an empty string or consist of alphanumeric characters"
        ),
        "uuid": _shaped(_UUID, 36, "does not match the UUID format"),
        "uri": _decodes(_parse_url, "invalid URI"),
        "byte": _decodes(lambda text: base64.b64decode(text, validate=True), "invalid base64"),
        "date": _decodes(lambda text: datetime.strptime(text, "%Y-%m-%d"), "invalid date"),
        "datetime": _decodes(datetime.fromisoformat, "invalid datetime"),
    }.items()
}


def _named_format(name: str) -> Optional:
    format = _FORMATS.get(name)
    return NONE if format is None else Optional(True, format)


def _validate(form: Format, text: str) -> Optional:
    problems = form.check(text)
    return Optional(True, problems) if problems else NONE


def _constant(value: Format) -> Callable[..., Any]:
    return lambda scope: value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ip": overloads(((str,), lambda text: Address(_parse_address(text)))),
    "isIP": overloads(((str,), _parses(_parse_address))),
    "ip.isCanonical": overloads(((str,), lambda text: str(_parse_address(text)) == text)),
    "cidr": overloads(((str,), _parse_network)),
    "isCIDR": overloads(((str,), _parses(_parse_network))),
    "url": overloads(((str,), _parse_url)),
    "isURL": overloads(((str,), _parses(_parse_url))),
    "format.named": overloads(((str,), _named_format)),
    **{f"format.{name}": _constant(form) for name, form in _FORMATS.items()},
}

METHODS: dict[str, Callable[..., Any]] = {
    "family": overloads(((Address,), lambda value: value.address.version)),
    "isUnspecified": overloads(((Address,), _test("is_unspecified"))),
    "isLoopback": overloads(((Address,), _test("is_loopback"))),
    "isLinkLocalMulticast": overloads(((Address,), _link_local_multicast)),
    "isLinkLocalUnicast": overloads(((Address,), _test("is_link_local"))),
    "isGlobalUnicast": overloads(((Address,), _global_unicast)),
    "containsIP": overloads(
        ((Network, Address), _contains_address),
        ((Network, str), _contains_text),
    ),
    "containsCIDR": overloads(
        ((Network, Network), _contains_network),
        ((Network, str), lambda network, text: _contains_network(network, _parse_network(text))),
    ),
    "ip": overloads(((Network,), lambda value: Address(value.address))),
    "masked": overloads(((Network,), lambda v: Network(v.network.network_address, v.network))),
    "prefixLength": overloads(((Network,), lambda value: value.network.prefixlen)),
    "getScheme": overloads(((Url,), lambda url: url.parts.scheme)),
    "getHost": overloads(((Url,), _host)),
    "getHostname": overloads(((Url,), lambda url: url.parts.hostname or "")),
    "getPort": overloads(((Url,), lambda url: "" if url.parts.port is None else str(url.parts.port))),
    "getEscapedPath": overloads(((Url,), lambda url: url.parts.path)),
    "getQuery": overloads(((Url,), lambda url: parse_qs(url.parts.query, keep_blank_values=True))),
    "validate": overloads(((Format, str), _validate)),
}
