"""Clients with a certificate of the API server's authority are who it says."""

from __future__ import annotations

import http.client
import json
import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mooring.serving.certificates import KeyPair, make_certificates
from mooring.serving.signing import sign_request
from tests.sandbox.apiserver.kit import Running

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def context(server: Running, signer: KeyPair, folder: Path) -> ssl.SSLContext:
    """Return what a client of user jane in group dev connects with."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = ((NameOID.COMMON_NAME, "jane"), (NameOID.ORGANIZATION_NAME, "dev"))
    subject = x509.Name([x509.NameAttribute(kind, name) for kind, name in names])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    signed = sign_request(signer, request.public_bytes(pem), ["client auth"], timedelta(hours=1))
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "client.pem"
    path.write_bytes(signed + plain)
    made = ssl.create_default_context(cadata=server.server.authority.decode())
    made.load_cert_chain(path)
    return made


def review(server: Running, tls: ssl.SSLContext) -> tuple[int, dict[str, object]]:
    port = int(server.server.url.rpartition(":")[2])
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=tls)
    try:
        connection.request("POST", REVIEW, b"{}", {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["status"]
    finally:
        connection.close()


def test_a_certificate_names_the_user(server: Running, tmp_path: Path) -> None:
    assert server.server.signer is not None
    code, status = review(server, context(server, server.server.signer, tmp_path))
    assert (code, status) == (
        201,
        {"userInfo": {"username": "jane", "groups": ["dev", "system:authenticated"]}},
    )


def test_certificates_of_others_are_rejected(server: Running, tmp_path: Path) -> None:
    foreign = make_certificates("127.0.0.1").signer
    with pytest.raises((ssl.SSLError, ConnectionError)):
        review(server, context(server, foreign, tmp_path))
