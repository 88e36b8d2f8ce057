"""Certificates for servers and clients on loopback."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def context(self, *, client_authority: bytes = b"") -> ssl.SSLContext:
        """For a server with this certificate; with an authority, clients have to show one of its own."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "server.pem"
            path.write_bytes(self.certificate + self.key)
            context.load_cert_chain(path)
        if client_authority:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=client_authority.decode())
        return context


class Authority:
    """Signs certificates."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        extension = x509.BasicConstraints(ca=True, path_length=None)
        built = _builder(self._name, self._name, self._key.public_key()).add_extension(
            extension, critical=True
        )
        self.certificate = built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *alternatives: str) -> Certificate:
        """A certificate for a name, or for a server with these names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        built = _builder(_named(name), self._name, key.public_key())
        if alternatives:
            names = x509.SubjectAlternativeName([_alternative(each) for each in alternatives])
            built = built.add_extension(names, critical=False)
        signed = built.sign(self._key, hashes.SHA256())
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Certificate(signed.public_bytes(serialization.Encoding.PEM), secret)


@cache
def authority() -> Authority:
    """The authority that most tests trust."""
    return Authority("test authority")


@cache
def loopback() -> Certificate:
    """A server's certificate for 127.0.0.1."""
    return authority().issue("server", "127.0.0.1")


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
