"""PersistentVolumeClaimResize: claims grow only if they are bound and their class allows expansion."""

from __future__ import annotations

from typing import Final

from mooring.api.quantity import parse
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.objects import Tree, dig

_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


class PersistentVolumeClaimResize(AdmissionPlugin):
    operations = frozenset({"UPDATE"})
    storages = frozenset({"persistentvolumeclaims"})

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.subresource or old is None or _size(obj) <= _size(old):
            return
        if dig(old, "status", "phase") != "Bound":
            raise _rejected(write, "Only bound persistent volume claims can be expanded")
        name = _class(obj)
        storage_class = write.api.read("storageclasses.storage.k8s.io", name) if name else None
        allowed = storage_class is not None and storage_class.get("allowVolumeExpansion")
        if not allowed or name != _class(old):
            raise _rejected(
                write,
                "only dynamically provisioned pvc can be resized and "
                "the storageclass that provisions the pvc must support resize",
            )


def _rejected(write: Write, why: str) -> ApiError:
    return forbidden(write.resource.group, write.resource.plural, write.name, why)


def _size(claim: Tree) -> int:
    return parse(dig(claim, "spec", "resources", "requests", "storage") or "0")


def _class(claim: Tree) -> str:
    annotation = dig(claim, "metadata", "annotations", _ANNOTATION)
    name: str = annotation or dig(claim, "spec", "storageClassName") or ""
    return name
