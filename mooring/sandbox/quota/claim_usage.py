"""What claims use up: storage, in all and by class."""

from __future__ import annotations

from mooring.api.quantity import NANO, parse
from mooring.api.quantity_texts import written
from mooring.api.quotas import ScopeRequirement
from mooring.api.storage import PersistentVolumeClaim
from mooring.sandbox.quota.amounts import ONE
from mooring.sandbox.quota.quota_kind import QuotaKind

_NUMBER, _STORAGE = "persistentvolumeclaims", "requests.storage"
_BY_CLASS = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


class Claims(QuotaKind[PersistentVolumeClaim]):
    model = PersistentVolumeClaim
    parts = frozenset({"", "status"})

    def uses(self, resource: str) -> bool:
        return resource in (self.count, _NUMBER, _STORAGE) or resource.endswith(
            (_BY_CLASS + _NUMBER, _BY_CLASS + _STORAGE)
        )

    def usage(self, obj: PersistentVolumeClaim, now: float) -> dict[str, str]:
        used = {_NUMBER: ONE}
        storage = _storage(obj)
        if storage is not None:
            used[_STORAGE] = storage
        named = obj.metadata.annotations.get(_CLASS_ANNOTATION) or obj.spec.storage_class_name
        of_class = {f"{named}{_BY_CLASS}{name}": quantity for name, quantity in used.items()} if named else {}
        return {self.count: ONE, **used, **of_class}

    def in_scope(self, scope: ScopeRequirement, obj: PersistentVolumeClaim) -> bool:
        return scope.scope_name == "VolumeAttributesClass" and scope.matches(*_attributes_classes(obj))

    def may_need_more(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim, subresource: str) -> bool:
        return not subresource or self.counts_anew(old, new, 0.0)

    def counts_anew(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim, now: float) -> bool:
        if _attributes_classes(old) != _attributes_classes(new):
            return True
        return old.status.allocated_resources.get("storage") != new.status.allocated_resources.get("storage")


def _storage(claim: PersistentVolumeClaim) -> str | None:
    """What is asked for, or was set aside already if that is more; in whole bytes."""
    requested = claim.spec.resources.requests.get("storage")
    if requested is None:
        return None
    largest = max((requested, claim.status.allocated_resources.get("storage", requested)), key=parse)
    return written(-(-parse(largest) // NANO) * NANO, like=str(largest))


def _attributes_classes(claim: PersistentVolumeClaim) -> list[str]:
    """The classes that a claim has, has had or shall have."""
    modified = claim.status.modify_volume_status
    names = {
        claim.spec.volume_attributes_class_name,
        claim.status.current_volume_attributes_class_name,
        modified.target_volume_attributes_class_name if modified is not None else None,
    }
    return sorted(name for name in names if name)
