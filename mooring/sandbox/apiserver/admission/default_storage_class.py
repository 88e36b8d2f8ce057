"""DefaultStorageClass: a claim that names no class gets the default one, if there is one."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.admission.chain import AdmissionPlugin
from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.verbs.api import Api
from mooring.sandbox.apiserver.verbs.write import Write

_CLASSES: Final = "storageclasses.storage.k8s.io"
_IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def _read(api: Api) -> str | None:
    """The newest of the default classes; of several made at once, the first by name."""
    found = [
        (tree["metadata"]["creationTimestamp"], tree["metadata"]["name"])
        for tree in api.read_all(_CLASSES)
        if any((tree["metadata"].get("annotations") or {}).get(key) == "true" for key in _IS_DEFAULT)
    ]
    newest = max((created for created, _ in found), default=None)
    return min((name for created, name in found if created == newest), default=None)


class DefaultStorageClass(AdmissionPlugin):
    storages = frozenset({"persistentvolumeclaims"})

    def __init__(self) -> None:
        self._default = Mirror(_CLASSES, _read)

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        annotations = obj["metadata"].get("annotations") or {}
        if "storageClassName" in obj["spec"] or _CLASS in annotations:
            return
        default = self._default.get(write.api)
        if default is not None:
            obj["spec"]["storageClassName"] = default
