"""Certificates of clients: a name, and the groups it belongs to."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.serving.certificates import KeyPair

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class ClientAuthority:
    """Signs certificates of clients, or of servers where a test wants the wrong ones."""

    def __init__(self, name: str = "clients") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        ca = x509.BasicConstraints(ca=True, path_length=None)
        signed = _builder(self._name, self._name, self._key, timedelta(days=1)).add_extension(
            ca, critical=True
        )
        self.certificate = _pem(signed.sign(self._key, hashes.SHA256()))

    def issue(
        self,
        name: str,
        *groups: str,
        valid: timedelta = timedelta(days=1),
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
        key: Key | None = None,
    ) -> KeyPair:
        key = key or ec.generate_private_key(ec.SECP256R1())
        built = _builder(_name(name, *groups), self._name, key, valid)
        signed = built.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        return KeyPair(_pem(signed.sign(self._key, hashes.SHA256())), key_pem(key))


def showing(pair: KeyPair) -> ssl.SSLContext:
    """For a client that shows a certificate, and believes any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with TemporaryDirectory() as folder:
        path = Path(folder) / "client.pem"
        path.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(path)
    return context


def key_pem(key: Key, password: bytes = b"") -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _name(name: str, *groups: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    if name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    return x509.Name(attributes)


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, valid: timedelta) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + valid)
    )
