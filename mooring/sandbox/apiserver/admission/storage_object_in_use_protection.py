"""StorageObjectInUseProtection: add the finalizer that keeps claims and volumes while they are in use."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.objects import Tree

_FINALIZERS: Final = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}


class StorageObjectInUseProtection(AdmissionPlugin):
    storages = frozenset(_FINALIZERS)

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        finalizer, metadata = _FINALIZERS[write.resource.storage], obj["metadata"]
        present = metadata.get("finalizers") or []
        if finalizer not in present:
            metadata["finalizers"] = [*present, finalizer]
