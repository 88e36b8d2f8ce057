"""Token, certificate and address of a server. A data directory keeps all three, so that a kubeconfig stays
valid after a restart."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mooring.sandbox.apiserver.aggregation.upstream import FRONT_PROXY, Identity
from mooring.sandbox.apiserver.http.kubeconfig import write_private
from mooring.serving.certificates import Certificates, KeyPair, make_certificates
from mooring.serving.signing import sign_request

_CLIENT_USAGES: Final = ("digital signature", "client auth")
_LIFETIME: Final = timedelta(days=365)
_TOKEN, _KUBECONFIG = "token", "kubeconfig"
_CERTIFICATES = ("ca.crt", "server.crt", "server.key", "ca.key")
_MIN_TOKEN_LENGTH = 32
_RENEW_BEFORE = timedelta(days=30)


def new_token() -> str:
    return secrets.token_urlsafe(32)


def kept_token(directory: Path) -> str:
    """Return the token of a data directory; a new one if it is missing or easy to guess."""
    with contextlib.suppress(FileNotFoundError):
        stored = (directory / _TOKEN).read_text().strip()
        if len(stored) >= _MIN_TOKEN_LENGTH:
            return stored
    token = new_token()
    write_private(directory / _TOKEN, token.encode())
    return token


def kept_certificates(directory: Path, host: str) -> Certificates:
    """Return the certificates of a directory; new ones if they are missing, expire soon or lack the host."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        stored = Certificates(*((directory / name).read_bytes() for name in _CERTIFICATES))
        if _is_valid(x509.load_pem_x509_certificate(stored.certificate), host):
            return stored
    made = make_certificates(host)
    for name, data in zip(_CERTIFICATES, made, strict=True):
        write_private(directory / name, data)
    return made


def front_proxy_identity(directory: Path, signer: KeyPair) -> Identity:
    """Return the certificate that extension API servers know this server by."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, FRONT_PROXY)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    certificate = sign_request(signer, request.public_bytes(pem), _CLIENT_USAGES, _LIFETIME)
    kept = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths = [directory / f"{FRONT_PROXY}.{suffix}" for suffix in ("crt", "key")]
    for path, data in zip(paths, (certificate, key.private_bytes(pem, *kept)), strict=True):
        write_private(path, data)
    return Identity(*map(str, paths))


def _is_valid(certificate: x509.Certificate, host: str) -> bool:
    if certificate.not_valid_after_utc < datetime.now(UTC) + _RENEW_BEFORE:
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
    """Return the port in the kubeconfig of a directory; 0 if there is none."""
    try:
        config = yaml.safe_load(kubeconfig_path(directory).read_text())
        return int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        return 0
