"""DefaultStorageClass: set the default class on claims that name none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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


def _read(trees: Iterable[Tree]) -> str | None:
    """Return the newest default class; among classes of the same age, the first by name."""
    defaults = [
        (tree["metadata"]["creationTimestamp"], tree["metadata"]["name"])
        for tree in trees
        if any((tree["metadata"].get("annotations") or {}).get(key) == "true" for key in _IS_DEFAULT)
    ]
    newest = max((created for created, _ in defaults), default=None)
    return min((name for created, name in defaults if created == newest), default=None)


class DefaultStorageClass(AdmissionPlugin):
    storages = frozenset({"persistentvolumeclaims"})

    def __init__(self) -> None:
        self._default = Mirror(_CLASSES, _read)

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        annotations = obj["metadata"].get("annotations") or {}
        if "storageClassName" in obj["spec"] or _CLASS in annotations:
            return
        default = self._default.get(write.api.store)
        if default is not None:
            obj["spec"]["storageClassName"] = default
