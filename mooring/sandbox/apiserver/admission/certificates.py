"""Certificates: who may approve and sign requests, and which subjects are never signed."""

from __future__ import annotations

from typing import Final

from cryptography.x509.oid import NameOID

from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import MASTERS
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.certificate_requests import parse_request

_GROUP: Final = "certificates.k8s.io"
_REQUESTS: Final = f"certificatesigningrequests.{_GROUP}"
_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"


class CertificateApproval(AdmissionPlugin):
    operations = frozenset({"UPDATE"})
    storages = frozenset({_REQUESTS})
    subresources = True

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.subresource == "approval" and old is not None:
            _check_signer(write, "approve", old["spec"]["signerName"])


class CertificateSigning(AdmissionPlugin):
    operations = frozenset({"UPDATE"})
    storages = frozenset({_REQUESTS})
    subresources = True

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.subresource == "status" and old is not None and obj.get("status") != old.get("status"):
            _check_signer(write, "sign", old["spec"]["signerName"])


def _check_signer(write: Write, verb: str, signer: str) -> None:
    """Check that the user may approve or sign for the signer, or for all signers of its domain."""
    domain = signer.partition("/")[0]
    for name in (signer, f"{domain}/*"):
        if write.api.rbac.decide(write.user, Attributes(verb, _GROUP, "signers", "", name)).allowed:
            return
    why = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise forbidden(_GROUP, "certificatesigningrequests", write.name, why)


class CertificateSubjectRestriction(AdmissionPlugin):
    storages = frozenset({_REQUESTS})

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if obj["spec"]["signerName"] != _CLIENT_SIGNER:
            return
        subject = parse_request(obj["spec"]["request"]).subject
        if any(one.value == MASTERS for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
            why = f"use of {_CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            raise forbidden(_GROUP, "certificatesigningrequests", write.name, why)
