"""A certificate for a server that was given none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.serving.settings import parse_address

_VALID = timedelta(days=365)


class KeyPair(NamedTuple):
    """A certificate, with those of its authorities that clients need, and its key; both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(…)"


def self_signed(address: str) -> KeyPair:
    """For a server that listens on an address, and goes by no name but localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"localhost@{int(now.timestamp())}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # for clients whose clocks are behind
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(_names(address)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(encoding), secret)


def _names(address: str) -> list[x509.GeneralName]:
    addresses = {parse_address("127.0.0.1"), parse_address("::1")}
    listening = parse_address(address)
    if not listening.is_unspecified:
        addresses.add(listening)
    return [x509.DNSName("localhost"), *(x509.IPAddress(each) for each in sorted(addresses, key=str))]
