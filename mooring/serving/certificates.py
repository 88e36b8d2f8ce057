"""Certificates for servers that were not given one."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)  # clients whose clocks are behind
_PEM = serialization.Encoding.PEM


class KeyPair(NamedTuple):
    """A certificate, with those of its authorities that clients need, and its private key; both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(…)"


class Certificates(NamedTuple):
    """An authority and a certificate that it signed, with their private keys; all PEM."""

    authority: bytes
    certificate: bytes
    key: bytes
    authority_key: bytes

    def __repr__(self) -> str:
        return "Certificates(…)"

    @property
    def pair(self) -> KeyPair:
        return KeyPair(self.certificate, self.key)

    @property
    def signer(self) -> KeyPair:
        return KeyPair(self.authority, self.authority_key)


def self_signed(host: str) -> KeyPair:
    """Make a certificate for a server that listens on a host and has no name but localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _common_name(f"localhost@{int(datetime.now(UTC).timestamp())}")
    certificate = (
        _builder(name, name, key)
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(certificate.public_bytes(_PEM), _key_pem(key))


def make_certificates(host: str) -> Certificates:
    """Make an authority, and a certificate for a server that listens on a host."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name, name = _common_name("mooring-ca"), _common_name("mooring-embedded")
    authority_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign=True), critical=True)
        .add_extension(authority_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id)
    certificate = (
        _builder(name, authority_name, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .add_extension(issuer_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Certificates(
        authority.public_bytes(_PEM), certificate.public_bytes(_PEM), _key_pem(key), _key_pem(authority_key)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
    )


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign,
        key_cert_sign=sign,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _names(host: str) -> list[x509.GeneralName]:
    """What clients may call the server: the host it listens on, and this machine."""
    names: dict[str, x509.GeneralName] = {}
    for name in (host, "127.0.0.1", "::1", "localhost"):
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            names[name] = x509.DNSName(name)
        else:
            if not address.is_unspecified:
                names[str(address)] = x509.IPAddress(address)
    return list(names.values())


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
