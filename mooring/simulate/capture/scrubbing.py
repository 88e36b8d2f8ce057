"""Anonymises objects: equal names stay equal, so that selectors, owners and references still match."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable
from typing import Any

from mooring.api.meta import Tree

_PUBLIC_KEY = re.compile(r"(?:[\w.-]+\.)?(?:kubernetes|k8s)\.io/[\w.-]+|mooring/[\w.-]+")
_PUBLIC_NAMES = frozenset(
    ["", "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler"]
)
_KEPT_VALUES = re.compile(r"-?\d+|true|false|linux|windows|amd64|arm64|")
_NAMES = frozenset(
    [
        "name", "namespace", "namespaces", "generateName", "uid", "nodeName", "nominatedNodeName", "hostname",
        "claimName", "volumeName", "storageClassName", "resourceClaimName", "resourceClaimTemplateName",
        "deviceClassName", "pool", "device", "nodeID", "volumeHandle", "volumeID", "pdName", "diskName",
        "subdomain", "serviceName", "secretName", "image", "names", "clusterIP", "podCIDR", "providerID",
        "address", "runtimeClassName", "attacher", "targetPortal", "iqn", "path", "persistentVolumeName",
    ]
)  # fmt: skip
_PAIRS = frozenset(["labels", "matchLabels", "nodeSelector", "selector"])
_VALUES = frozenset(["values", "value"])
_DROPPED = frozenset(["message", "managedFields", "lastAppliedConfiguration"])
_KEPT_ANNOTATIONS = re.compile(r"pv\.kubernetes\.io/.*|mooring/.*|storage\.alpha\.kubernetes\.io/.*")
_AMOUNTS = frozenset(["requests", "limits", "capacity", "allocatable", "overhead"])


class Scrubber:
    """Replaces names, namespaces, label values, images and the like by pseudonyms.

    Pseudonyms come from a random key that is not kept, so that they cannot be looked up. Quantities,
    priorities, taint effects, well-known label keys and what the scheduler itself defines stay as they are.
    """

    def __init__(self, key: bytes = b"") -> None:
        self._key = key or secrets.token_bytes(32)

    def pseudonym(self, text: str) -> str:
        if text in _PUBLIC_NAMES or text.startswith("system-"):
            return text
        return "x" + hmac.new(self._key, text.encode(), "sha256").hexdigest()[:12]

    def scrub(self, tree: Tree) -> Tree:
        """A copy of an object without what names people, teams or products."""
        scrubbed: Tree = self._walk(tree, "")
        return scrubbed

    def _walk(self, value: Any, field: str) -> Any:
        if isinstance(value, list):
            return [self._walk(each, field) for each in value]
        if isinstance(value, str):
            return self._text(value, field)
        if not isinstance(value, dict):
            return value
        if field in _AMOUNTS:
            return value
        if field == "annotations":
            return {key: text for key, text in value.items() if _KEPT_ANNOTATIONS.fullmatch(key)}
        if field in _PAIRS and all(isinstance(each, str) for each in value.values()):
            return {self._label_key(key): self._value(text) for key, text in value.items()}
        return {key: self._walk(each, key) for key, each in value.items() if key not in _DROPPED}

    def _text(self, text: str, field: str) -> str:
        if field in _NAMES:
            return self.pseudonym(text)
        if field in _VALUES:
            return self._value(text)
        if field in ("key", "topologyKey", "matchLabelKeys", "mismatchLabelKeys"):
            return self._label_key(text)
        return text

    def _label_key(self, key: str) -> str:
        return key if _PUBLIC_KEY.fullmatch(key) else self.pseudonym(key)

    def _value(self, text: str) -> str:
        return text if _KEPT_VALUES.fullmatch(text) else self.pseudonym(text)


def scrub_all(trees: Iterable[Tree], scrubber: Scrubber | None) -> list[Tree]:
    return list(trees) if scrubber is None else [scrubber.scrub(tree) for tree in trees]
