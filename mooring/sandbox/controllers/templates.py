"""Pods made of the templates that workloads carry."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

LONGEST_POD_NAME = 253
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own, which spell no words
_canonical = msgspec.json.Encoder(order="deterministic").encode


def hash_of(content: object, collision_count: int | None = None) -> str:
    """A short name for a content, such as `pod-template-hash`: the same whatever the order of its keys.

    Made as kube-controller-manager makes it, but of the JSON: it takes the memory of a Go program.
    """
    data = _canonical(content)
    if collision_count is not None:
        data += struct.pack("<Q", collision_count)
    return safe_encode(str(fnv32a(data)))


def safe_encode(text: str) -> str:
    return "".join(_LETTERS[ord(letter) % len(_LETTERS)] for letter in text)


def fnv32a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def name_prefix(owner: str) -> str:
    """What the names of an owner's pods begin with; the dash is left out where there is no room for it."""
    prefix = f"{owner}-"
    return prefix if len(prefix) <= LONGEST_POD_NAME else owner


def pod_of(template: dict[str, Any], owner: str, reference: dict[str, Any]) -> dict[str, Any]:
    """The body of a new pod, to be named by the API server; callers may change its metadata, not its spec."""
    template_metadata = template.get("metadata") or {}
    metadata: dict[str, Any] = {"generateName": name_prefix(owner), "ownerReferences": [reference]}
    for field in ("labels", "annotations"):
        if template_metadata.get(field):
            metadata[field] = dict(template_metadata[field])
    if template_metadata.get("finalizers"):
        metadata["finalizers"] = list(template_metadata["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}
