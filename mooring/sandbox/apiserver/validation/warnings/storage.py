"""Warnings about volumes, claims and storage classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.warnings.texts import (
    selected_keys,
    selected_labels,
    whole_bytes,
)

_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_VOLUME_ANNOTATIONS: Final = {
    _BETA_CLASS: 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_PLUGINS: Final = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


def claim_warnings(claim: Tree) -> Iterator[str]:
    if _BETA_CLASS in (claim["metadata"].get("annotations") or {}):
        instead = 'deprecated since v1.8; use "storageClassName" attribute instead'
        yield f"metadata.annotations[{_BETA_CLASS}]: {instead}"
    yield from claim_spec_warnings("spec", claim.get("spec") or {})


def claim_spec_warnings(path: str, spec: Tree) -> Iterator[str]:
    resources = spec.get("resources") or {}
    for member in ("requests", "limits"):
        yield from whole_bytes(f"{path}.resources.{member}", resources.get(member), "storage")


def volume_warnings(volume: Tree) -> Iterator[str]:
    annotations, spec = volume["metadata"].get("annotations") or {}, volume.get("spec") or {}
    for key, why in _VOLUME_ANNOTATIONS.items():
        if key in annotations:
            yield f"metadata.annotations[{key}]: {why}"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield (
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
            "Instead, the recommended approach is to use dynamic provisioning."
        )
    for index, term in enumerate(dig(spec, "nodeAffinity", "required", "nodeSelectorTerms") or ()):
        yield from selected_keys(f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]", term)
    for member, why in _PLUGINS.items():
        if spec.get(member) is not None:
            yield f"spec.{'storageOS' if member == 'storageos' else member}: {why}"


def storage_class_warnings(storage_class: Tree) -> Iterator[str]:
    for index, topology in enumerate(storage_class.get("allowedTopologies") or ()):
        for at, expression in enumerate(topology.get("matchLabelExpressions") or ()):
            path = f"allowedTopologies[{index}].matchLabelExpressions[{at}].key"
            yield from selected_labels(path, {expression["key"]: ""}, by_key=False)
