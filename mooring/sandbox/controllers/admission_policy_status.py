"""The status of ValidatingAdmissionPolicies: what is wrong with the types of their expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject, Value
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType

Tree = dict[str, Any]
CheckTypes = Callable[[Tree], list[Tree]]
"""Returns the warnings about the types of a policy's expressions."""


class PolicyStatus(Value, frozen=True):
    observed_generation: int = 0


class ValidatingAdmissionPolicy(KubeObject):
    spec: Tree = {}
    status: PolicyStatus = PolicyStatus()


POLICIES = ApiResource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", False, ValidatingAdmissionPolicy
)


class AdmissionPolicyStatus(Controller):
    name = "validatingadmissionpolicy-status"

    def __init__(self, context: Context, check_types: CheckTypes) -> None:
        super().__init__(context)
        self._check_types = check_types
        self._policies = self.cache.follow(POLICIES)
        self._policies.subscribe(self._changed)

    def _changed(self, old: ValidatingAdmissionPolicy | None, new: ValidatingAdmissionPolicy | None) -> None:
        if new is not None:
            self.enqueue(new.name)

    async def sync(self, key: str) -> None:
        policy = self._policies.get(key)
        if policy is None or policy.status.observed_generation >= policy.metadata.generation:
            return
        warnings = self._check_types({"spec": policy.spec})
        status = {
            "observedGeneration": policy.metadata.generation,
            "typeChecking": {"expressionWarnings": warnings} if warnings else {},
        }
        patch = {"metadata": {"uid": policy.uid}, "status": status}
        written = await self.cluster.patch(POLICIES, key, patch, subresource="status", kind=PatchType.MERGE)
        self._policies.wrote(written)
