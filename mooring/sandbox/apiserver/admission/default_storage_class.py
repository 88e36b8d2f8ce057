"""DefaultStorageClass: set the default class on claims that name none."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.admission.default_class import newest_default
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree

_CLASSES: Final = "storageclasses.storage.k8s.io"
_IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class DefaultStorageClass(AdmissionPlugin):
    storages = frozenset({"persistentvolumeclaims"})

    def __init__(self) -> None:
        self._default = Mirror(_CLASSES, newest_default(*_IS_DEFAULT))

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        annotations = obj["metadata"].get("annotations") or {}
        if "storageClassName" in obj["spec"] or _CLASS in annotations:
            return
        default = self._default.get(write.api.store)
        if default is not None:
            obj["spec"]["storageClassName"] = default
