"""Approved requests for client certificates are signed."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mooring.client.port import PatchType
from mooring.sandbox.controllers.certificate_signer import REQUESTS, SIGNER, CertificateSigner
from mooring.serving.certificates import make_certificates
from tests.sandbox.controllers.kit import Embedded, play

AUTHORITY = make_certificates("127.0.0.1").signer


def request(name: str) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def test_only_approved_requests_are_signed() -> None:
    async def scene(stage: Embedded) -> None:
        async def ask(name: str, *usages: str, decision: str = "Approved", **more: Any) -> Any:
            text = base64.b64encode(request(name)).decode()
            spec = {"request": text, "signerName": SIGNER, "usages": [*usages], **more}
            await stage.cluster.create(REQUESTS, {"metadata": {"name": name}, "spec": spec})
            status = {"conditions": [{"type": decision, "status": "True"}]} if decision else {}
            await stage.cluster.patch(
                REQUESTS, name, {"status": status}, subresource="approval", kind=PatchType.MERGE
            )
            await stage.rest()
            return (await stage.cluster.get(REQUESTS, name)).status

        signed = await ask("jane", "client auth", expirationSeconds=3600)
        certificate = x509.load_pem_x509_certificate(base64.b64decode(signed.certificate))
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(AUTHORITY.certificate))
        assert certificate.subject.rfc4514_string() == "CN=jane"
        lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert lifetime <= timedelta(hours=1, minutes=5)
        assert not (await ask("joe", "client auth", decision="")).certificate
        assert not (await ask("eve", "client auth", decision="Denied")).certificate
        assert not (await ask("else", "client auth", signerName="a.io/b")).certificate
        failed = await ask("web", "server auth", "client auth")
        assert failed.conditions[1]["message"] == "invalid usage for client certificate: server auth"
        assert not failed.certificate

    play(scene, lambda context: CertificateSigner(context, AUTHORITY))
