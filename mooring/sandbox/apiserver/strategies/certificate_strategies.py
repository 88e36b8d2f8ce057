"""The strategy of CertificateSigningRequests: the user is recorded, approval and signature are separate."""

from __future__ import annotations

from mooring.sandbox.apiserver.context.strategy import Strategy, keep
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import Cause
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.certificate_requests import certificate_request_approval


class CertificateSigningRequestStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        spec = obj["spec"]
        for name in ("uid", "extra"):
            spec.pop(name, None)
        spec |= write.user.info

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        keep(obj, old, "spec")

    def settle_status(self, write: Write, obj: Tree, old: Tree) -> None:
        """Keep what was decided, and set the times of conditions."""
        before = {one.get("type"): one for one in old.get("status", {}).get("conditions") or ()}
        conditions = obj.setdefault("status", {}).get("conditions") or []
        if write.subresource == "status":
            conditions[:] = [
                before.get(one.get("type"), one) if one.get("type") in ("Approved", "Denied") else one
                for one in conditions
            ]
        for one in conditions:
            if not one.get("lastUpdateTime"):
                one["lastUpdateTime"] = write.api.now()
            if not one.get("lastTransitionTime"):
                known = before.get(one.get("type"), {})
                same = known.get("status") == one.get("status")
                one["lastTransitionTime"] = (same and known.get("lastTransitionTime")) or write.api.now()

    def prepare_subresource(self, write: Write, obj: Tree, old: Tree) -> None:
        keep(obj, old, "spec")
        status, before = obj.setdefault("status", {}), old.get("status", {})
        keep(status, before, "certificate")
        self.settle_status(write, obj, old)

    def validate_subresource(self, subresource: str, obj: Tree, old: Tree) -> list[Cause]:
        return list(certificate_request_approval(obj, old))
