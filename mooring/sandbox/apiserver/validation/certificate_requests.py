"""CertificateSigningRequests."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from mooring.sandbox.apiserver.errors import (
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
)
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.addresses import domain_name
from mooring.sandbox.apiserver.validation.fields import Causes, one_of, text
from mooring.sandbox.apiserver.validation.names import dns_subdomain

_USAGES: Final = choices("certificates_v1.CertificateSigningRequestSpec.usages")
_LEGACY_SIGNER: Final = "kubernetes.io/legacy-unknown"
_LEAST_SECONDS: Final = 600
_DECISIONS: Final = ("Approved", "Denied")
_LASTING: Final = (*_DECISIONS, "Failed")
_STATUSES: Final = ("False", "True", "Unknown")


def certificate_request(obj: Tree) -> Causes:
    spec = obj.get("spec") or {}
    request, usages, signer = spec.get("request", ""), spec.get("usages") or [], spec.get("signerName", "")
    problem = _request_problem(request)
    if problem:
        yield invalid_value("spec.request", request, problem)
    if not usages:
        yield required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield not_supported(f"spec.usages[{index}]", usage, _USAGES)
        if usage in usages[:index]:
            yield duplicate(f"spec.usages[{index}]", usage)
    yield from _signer(signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _LEAST_SECONDS:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid_value("spec.expirationSeconds", seconds, why)


def _request_problem(request: str) -> str:
    try:
        parsed = parse_request(request)
        return "" if parsed.is_signature_valid else "x509: invalid signature"
    except ValueError as error:
        return str(error)
    except (InvalidSignature, UnsupportedAlgorithm):
        return "x509: cannot verify signature: algorithm unimplemented"


def parse_request(request: str) -> x509.CertificateSigningRequest:
    """Parse spec.request, which is PEM in base 64. Raises ValueError."""
    try:
        pem = base64.b64decode(request, validate=True)
    except binascii.Error:
        pem = b""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        return x509.load_pem_x509_csr(pem)
    except ValueError:
        raise ValueError("x509: malformed certificate request") from None


def _signer(name: str) -> Causes:
    at = "spec.signerName"
    domain, _, path = name.partition("/")
    if not name:
        yield required(at)
    elif name == _LEGACY_SIGNER:
        yield invalid_value(at, name, "the legacy signerName is not allowed via this API version")
    elif not path or "/" in path:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid_value(at, name, why)
    else:
        yield from domain_name(at, domain)
        yield from text(at, path, dns_subdomain)


def certificate_request_status(obj: Tree, old: Tree) -> Causes:
    """Validate a write of the status by a signer, which does not approve."""
    yield from _conditions(obj, old)
    for kind in _DECISIONS:
        if len(_of_type(obj, kind)) > len(_of_type(old, kind)):
            why = f'updates may not add a condition of type "{kind}"'
            yield forbidden_value("status.conditions", why)
    certificate, before = dig(obj, "status", "certificate"), dig(old, "status", "certificate")
    if not certificate or certificate == before:
        return
    if before:
        yield forbidden_value("status.certificate", "updates may not modify existing certificate content")
    elif problem := _certificate_problem(certificate):
        yield invalid_value("status.certificate", "<certificate data>", problem)


def _certificate_problem(certificate: str) -> str:
    try:
        pem = base64.b64decode(certificate)
        if b"-----BEGIN CERTIFICATE-----" not in pem:
            return "must contain at least one CERTIFICATE PEM block"
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        return "x509: malformed certificate"
    return ""


def certificate_request_approval(obj: Tree, old: Tree) -> Causes:
    yield from _conditions(obj, old)


def _conditions(obj: Tree, old: Tree) -> Causes:
    at = "status.conditions"
    types: set[str] = set()
    for index, condition in enumerate(dig(obj, "status", "conditions") or ()):
        kind, path = condition.get("type", ""), f"{at}[{index}]"
        if not kind:
            yield required(f"{path}.type")
        yield from one_of(
            f"{path}.status", condition.get("status"), ("True",) if kind in _LASTING else _STATUSES
        )
        if kind in _DECISIONS and types & (set(_DECISIONS) - {kind}):
            yield invalid_value(at, kind, "Approved and Denied conditions are mutually exclusive")
        if kind in types:
            yield duplicate(f"{path}.type", kind)
        types.add(kind)
    for kind in _LASTING:
        if len(_of_type(obj, kind)) < len(_of_type(old, kind)):
            yield forbidden_value(at, f'updates may not remove a condition of type "{kind}"')


def _of_type(obj: Tree, kind: str) -> Sequence[Tree]:
    return [one for one in dig(obj, "status", "conditions") or () if one.get("type") == kind]
