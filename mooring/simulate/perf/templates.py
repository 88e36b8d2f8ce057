"""Objects from scheduler_perf's template files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.documents import DocumentError, read_documents
from mooring.simulate.perf.go_templates import GoTemplate, TemplateError

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # as Kubernetes names objects
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {},
    "status": {
        "capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "allocatable": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
_AMOUNT = {"cpu": "100m", "memory": "500Mi"}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": _AMOUNT, "requests": _AMOUNT},
            }
        ]
    },
}


class ObjectTemplate:
    """A file with one object. `render` executes it as a Go template; without, it is read as it is."""

    def __init__(self, path: Path, render: bool = True) -> None:
        self.path = path
        try:
            text = path.read_text()
            self._template = GoTemplate(text) if render else None
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except (TemplateError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: {error}") from None
        self._fixed = None
        if self._template is None or not self._template.varies:
            self._fixed = msgspec.json.encode(self._parse(text))

    def object(self, index: int = 0, count: int = 1) -> dict[str, Any]:
        """A new object. Raises ValueError."""
        if self._fixed is not None:
            tree: dict[str, Any] = msgspec.json.decode(self._fixed)
            return tree
        assert self._template is not None
        try:
            return self._parse(self._template.render(index, count))
        except TemplateError as error:
            raise ValueError(f"{self.path}: {error}") from None

    def _parse(self, text: str) -> dict[str, Any]:
        trees = list(read_documents(text))
        if trees and isinstance(trees[0], DocumentError):
            raise ValueError(f"{self.path}: {trees[0]}")
        if len(trees) != 1 or not isinstance(trees[0], dict):
            raise ValueError(f"{self.path}: expected one object")
        tree: dict[str, Any] = trees[0]
        if not isinstance(tree.get("metadata"), dict):
            tree["metadata"] = {}
        return tree


class FixedTemplate:
    """An object of scheduler_perf's own, where no file is named."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self._text = msgspec.json.encode(tree)

    def object(self, index: int = 0, count: int = 1) -> dict[str, Any]:
        tree: dict[str, Any] = msgspec.json.decode(self._text)
        return tree


Template = ObjectTemplate | FixedTemplate


def random_suffix(source: random.Random) -> str:
    return "".join(source.choices(_ALPHABET, k=5))
