"""Certificates that an authority signs on request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from mooring.serving.certificates import KeyPair

_BACKDATE: Final = timedelta(minutes=5)  # clients whose clocks are behind
_SHORT: Final = timedelta(hours=8)
_SIGNATURES: Final = frozenset(("digital signature", "signing"))
_ENCIPHERMENT: Final = "key encipherment"
_EXTENDED: Final = {
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
}


def sign_request(authority: KeyPair, request: bytes, usages: Sequence[str], lifetime: timedelta) -> bytes:
    """Sign a PEM request and return the certificate in PEM: subject, names and key are those of the request,
    the usages those that are named. Raises ValueError."""
    parsed = x509.load_pem_x509_csr(request)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    now = datetime.now(UTC)
    end = now + (lifetime if lifetime < _SHORT else lifetime - _BACKDATE)
    builder = (
        x509.CertificateBuilder()
        .subject_name(parsed.subject)
        .issuer_name(issuer.subject)
        .public_key(parsed.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(min(end, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_authority_id(issuer), critical=False)
    )
    if _SIGNATURES.intersection(usages) or _ENCIPHERMENT in usages:
        builder = builder.add_extension(_key_usage(usages), critical=True)
    extended = [_EXTENDED[usage] for usage in usages if usage in _EXTENDED]
    if extended:
        builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
    for extension in parsed.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            builder = builder.add_extension(extension.value, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _authority_id(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier.value)


def _key_usage(usages: Sequence[str]) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=bool(_SIGNATURES.intersection(usages)),
        key_encipherment=_ENCIPHERMENT in usages,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
