"""The manifests of deploy/, rendered as `kubectl apply -k` does."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.permissions import Permission

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAYS = sorted(folder.name for folder in (DEPLOY / "overlays").iterdir())

Manifest = dict[str, Any]


class Manifests(list[Manifest]):
    """The objects of one kustomization."""

    def of(self, kind: str) -> list[Manifest]:
        return [manifest for manifest in self if manifest["kind"] == kind]

    def only(self, kind: str) -> Manifest:
        (manifest,) = self.of(kind)
        return manifest

    def named(self, kind: str, name: str) -> Manifest:
        (manifest,) = (manifest for manifest in self.of(kind) if manifest["metadata"]["name"] == name)
        return manifest

    def pod_spec(self) -> Manifest:
        spec: Manifest = self.only("Deployment")["spec"]["template"]["spec"]
        return spec

    def container(self) -> Manifest:
        (container,) = self.pod_spec()["containers"]
        return dict(container)

    def mounted(self, path: str) -> dict[str, str]:
        """The files that the container sees in a folder, from a ConfigMap."""
        (mount,) = (mount for mount in self.container()["volumeMounts"] if mount["mountPath"] == path)
        (volume,) = (volume for volume in self.pod_spec()["volumes"] if volume["name"] == mount["name"])
        files: dict[str, str] = self.named("ConfigMap", volume["configMap"]["name"])["data"]
        return files


def render(folder: Path) -> Manifests:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl, which renders the manifests: put it on the PATH")
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Manifests(yaml.safe_load_all(done.stdout))


def granted(rules: Iterable[Manifest]) -> frozenset[Permission]:
    """What rules without names of objects allow."""
    return frozenset(
        Permission(verb, group, resource)
        for rule in rules
        if "resourceNames" not in rule
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    )
