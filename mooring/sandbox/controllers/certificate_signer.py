"""Approved CertificateSigningRequests for client certificates are signed by the API server's authority."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any, Final

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject, Value
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType
from mooring.serving.certificates import KeyPair
from mooring.serving.signing import sign_request

SIGNER: Final = "kubernetes.io/kube-apiserver-client"
_LONGEST: Final = timedelta(days=365)
_SHORTEST: Final = timedelta(minutes=10)
_USAGE: Final = "client auth"
_OPTIONAL_USAGES: Final = ("digital signature", "key encipherment")

Tree = dict[str, Any]


class RequestSpec(Value, frozen=True):
    request: str = ""
    signer_name: str = ""
    usages: list[str] = []
    expiration_seconds: int | None = None


class RequestStatus(Value, frozen=True):
    conditions: list[Tree] = []
    certificate: str = ""


class CertificateSigningRequest(KubeObject):
    spec: RequestSpec = RequestSpec()
    status: RequestStatus = RequestStatus()

    def has_condition(self, kind: str) -> bool:
        return any(one.get("type") == kind and one.get("status") == "True" for one in self.status.conditions)


REQUESTS = ApiResource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", False, CertificateSigningRequest
)


class CertificateSigner(Controller):
    name = "certificatesigningrequest-signing-controller"

    def __init__(self, context: Context, authority: KeyPair) -> None:
        super().__init__(context)
        self._authority = authority
        self._requests = self.cache.follow(REQUESTS)
        self._requests.subscribe(self._changed)

    def _changed(self, old: CertificateSigningRequest | None, new: CertificateSigningRequest | None) -> None:
        if new is not None and new.spec.signer_name == SIGNER:
            self.enqueue(new.name)

    async def sync(self, key: str) -> None:
        request = self._requests.get(key)
        if request is None or request.status.certificate:
            return
        if not request.has_condition("Approved") or request.has_condition("Denied"):
            return
        if request.has_condition("Failed"):
            return
        patch = {"metadata": {"uid": request.uid}, "status": self._answer(request)}
        written = await self.cluster.patch(REQUESTS, key, patch, subresource="status", kind=PatchType.MERGE)
        self._requests.wrote(written)

    def _answer(self, request: CertificateSigningRequest) -> Tree:
        """Return the part of the status that has the certificate, or why there is none."""
        spec = request.spec
        problem = _usage_problem(spec.usages)
        if problem:
            failure = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure"}
            return {"conditions": [*request.status.conditions, {**failure, "message": problem}]}
        lifetime = _LONGEST
        if spec.expiration_seconds is not None:
            lifetime = min(max(timedelta(seconds=spec.expiration_seconds), _SHORTEST), _LONGEST)
        pem = sign_request(self._authority, base64.b64decode(spec.request), spec.usages, lifetime)
        return {"certificate": base64.b64encode(pem).decode()}


def _usage_problem(usages: list[str]) -> str:
    for usage in usages:
        if usage != _USAGE and usage not in _OPTIONAL_USAGES:
            return f"invalid usage for client certificate: {usage}"
    return "" if _USAGE in usages else f"missing required usage for client certificate: {_USAGE}"
