"""Flags for serving: addresses, certificates, authentication and authorization."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import msgspec

ALWAYS_ALLOWED = ("/healthz", "/readyz", "/livez")


class EndpointError(Exception):
    """Serving cannot start: the address is in use, a certificate does not load, a flag is invalid."""


def parse_address(text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError:
        raise EndpointError(f'--bind-address: "{text}" is not an IP address') from None


class EndpointSettings(msgspec.Struct, kw_only=True, frozen=True):
    """kube-scheduler's flags for secure serving, authentication and authorization, by their names."""

    bind_address: str = "0.0.0.0"
    secure_port: int = 10259  # 0: no serving
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    client_ca_file: str = ""
    authentication_kubeconfig: str = ""
    authentication_skip_lookup: bool = False
    authentication_tolerate_lookup_failure: bool = True
    authentication_cache_seconds: float = 10.0
    authorization_kubeconfig: str = ""
    authorization_always_allow_paths: tuple[str, ...] = ALWAYS_ALLOWED
    authorization_allowed_cache_seconds: float = 10.0
    authorization_denied_cache_seconds: float = 10.0
