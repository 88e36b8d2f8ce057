"""Which proxy leads to a server: the kubeconfig's, or the environment's as Go programs read it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Literal, cast
from urllib.parse import SplitResult, unquote, urlsplit

from mooring.client.api_errors import CredentialsError
from mooring.client.http.tunnel import Proxy

_PORTS = {"http": 80, "https": 443, "socks5": 1080}


def parse_proxy(text: str, where: str) -> Proxy:
    """A proxy from its URL; `where` names the field or variable. Raises CredentialsError."""
    expected = "expected a URL such as http://proxy:3128 (http, https or socks5)"
    try:
        url = urlsplit(text)
        port = url.port or _PORTS.get(url.scheme, 0)
    except ValueError:
        raise CredentialsError(f"{where}: found no URL, {expected}") from None
    if url.scheme not in _PORTS or not url.hostname:  # the text is not shown: it may hold a password
        problem = f'scheme "{url.scheme}"' if url.hostname else "no host"
        raise CredentialsError(f"{where}: found {problem}, {expected}")
    scheme = cast(Literal["http", "https", "socks5"], url.scheme)
    return Proxy(scheme, url.hostname, port, unquote(url.username or ""), unquote(url.password or ""))


def proxy_from_environment(server: SplitResult, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy of HTTPS_PROXY or HTTP_PROXY, unless NO_PROXY exempts the server. Raises CredentialsError."""
    name = f"{server.scheme.upper()}_PROXY"
    text = environ.get(name) or environ.get(name.lower()) or ""
    exempt = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not text or _exempt(server, exempt):
        return None
    return parse_proxy(text if "://" in text else f"http://{text}", name)


def _exempt(server: SplitResult, exempt: str) -> bool:
    host = (server.hostname or "").rstrip(".")
    port = str(server.port or {"http": 80, "https": 443}[server.scheme])
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, port, address) for entry in exempt.split(","))


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _matches(entry: str, host: str, port: str, address: Address | None) -> bool:
    """One entry of NO_PROXY: *, an address, a network, a domain; a domain or address may end with a port."""
    if entry == "*":
        return True
    if address is not None and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    entry, _, own_port = _split_port(entry)
    if not entry or (own_port and own_port != port):
        return False
    if address is not None:
        return _address(entry) == address
    domain = entry.removeprefix("*")
    return host.endswith(domain) if domain.startswith(".") else host == domain or host.endswith(f".{domain}")


def _split_port(entry: str) -> tuple[str, str, str]:
    if entry.startswith("["):
        inner, _, rest = entry[1:].partition("]")
        return inner, ":", rest.removeprefix(":")
    if entry.count(":") == 1:
        return entry.partition(":")
    return entry, "", ""


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
