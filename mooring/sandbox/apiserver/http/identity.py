"""What clients know a server by: token, certificate and address. A data directory keeps all three, so that a
kubeconfig that was handed out lets its owner in after a restart too."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509

from mooring.sandbox.apiserver.http.kubeconfig import write_private
from mooring.serving.certificates import Certificates, make_certificates

_TOKEN, _AUTHORITY, _CERTIFICATE, _KEY, _KUBECONFIG = (
    "token",
    "ca.crt",
    "server.crt",
    "server.key",
    "kubeconfig",
)
_SHORTEST_TOKEN = 32
_RENEWED_BEFORE = timedelta(days=30)


def new_token() -> str:
    return secrets.token_urlsafe(32)


def kept_token(directory: Path) -> str:
    """The token of a data directory; a new one where there is none yet, or none that is hard to guess."""
    with contextlib.suppress(FileNotFoundError):
        found = (directory / _TOKEN).read_text().strip()
        if len(found) >= _SHORTEST_TOKEN:
            return found
    token = new_token()
    write_private(directory / _TOKEN, token.encode())
    return token


def kept_certificates(directory: Path, host: str) -> Certificates:
    """The certificates of a directory; new ones where there are none that will do for a host for a while."""
    names = (_AUTHORITY, _CERTIFICATE, _KEY)
    with contextlib.suppress(FileNotFoundError, ValueError):
        found = Certificates(*((directory / name).read_bytes() for name in names))
        if _will_do(x509.load_pem_x509_certificate(found.certificate), host):
            return found
    made = make_certificates(host)
    for name, data in zip(names, made, strict=True):
        write_private(directory / name, data)
    return made


def _will_do(certificate: x509.Certificate, host: str) -> bool:
    if certificate.not_valid_after_utc < datetime.now(UTC) + _RENEWED_BEFORE:
        return False
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host in names.get_values_for_type(x509.DNSName)
    return address.is_unspecified or address in names.get_values_for_type(x509.IPAddress)


def kubeconfig_path(directory: Path) -> Path:
    return directory / _KUBECONFIG


def last_port(directory: Path) -> int:
    """The port that the kubeconfig of a directory names; 0 where there is none."""
    try:
        config = yaml.safe_load(kubeconfig_path(directory).read_text())
        return int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        return 0
