"""PodSecurity: enforce the Pod Security Standards that the labels of a namespace name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mooring.sandbox.apiserver.admission.pod_security_checks import CHECKS, violations
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import Cause, forbidden, invalid, invalid_value
from mooring.sandbox.apiserver.objects import Tree, dig

_PREFIX: Final = "pod-security.kubernetes.io/"
_MODES: Final = ("enforce", "audit", "warn")
_VERSION: Final = re.compile(r"latest|v1\.(0|[1-9][0-9]*)", re.ASCII)
_TEMPLATES: Final = {
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
    "daemonsets.apps": ("spec", "template"),
    "deployments.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
    "podtemplates": ("template",),
    "replicasets.apps": ("spec", "template"),
    "replicationcontrollers": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
}
"""Where objects have the pods that they stand for."""


class PodSecurity(AdmissionPlugin):
    """All versions of a standard are its latest. Nothing is audited, since there is no audit log."""

    operations = frozenset({"CREATE", "UPDATE"})
    storages = frozenset({"namespaces", "pods", *_TEMPLATES})
    subresources = True

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        storage = write.resource.storage
        if storage == "namespaces":
            if not write.subresource:
                _check_labels(write, obj)
            return
        record = write.api.record("namespaces", write.namespace)
        labels = None if record is None else record.labels
        if not labels or not any(key.startswith(_PREFIX) for key in labels):
            return
        part = write.subresource
        if storage == "pods":
            if part == "ephemeralcontainers" or (not part and write.operation == "CREATE"):
                _enforce(write, labels, obj)
        elif not part and (template := dig(obj, *_TEMPLATES[storage])) is not None:
            _warn(write, labels, template)


def _level(labels: Mapping[str, str], mode: str) -> tuple[str, str]:
    """Return the level of a mode, and how messages name it. An invalid level is the strictest, an invalid
    version the latest."""
    level = labels.get(f"{_PREFIX}{mode}", "privileged")
    level = level if level in CHECKS else "restricted"
    version = labels.get(f"{_PREFIX}{mode}-version", "latest")
    return level, f"{level}:{version if _VERSION.fullmatch(version) else 'latest'}"


def _enforce(write: Write, labels: Mapping[str, str], pod: Tree) -> None:
    level, shown = _level(labels, "enforce")
    problems = violations(level, pod["metadata"], pod["spec"])
    if problems:
        raise forbidden("", "pods", write.name, f'violates PodSecurity "{shown}": {problems}')
    _warn(write, labels, pod)


def _warn(write: Write, labels: Mapping[str, str], pod: Tree) -> None:
    level, shown = _level(labels, "warn")
    problems = violations(level, pod.get("metadata") or {}, pod.get("spec") or {})
    if problems:
        write.warnings.append(f'would violate PodSecurity "{shown}": {problems}')


def _check_labels(write: Write, obj: Tree) -> None:
    """Reject labels of a namespace that name no level or version."""
    labels = obj["metadata"].get("labels") or {}
    causes: list[Cause] = []
    for mode in _MODES:
        level, version = labels.get(f"{_PREFIX}{mode}"), labels.get(f"{_PREFIX}{mode}-version")
        at = f"metadata.labels[{_PREFIX}{mode}"
        if level is not None and level not in CHECKS:
            causes.append(invalid_value(f"{at}]", level, f"must be one of {', '.join(CHECKS)}"))
        if version is not None and not _VERSION.fullmatch(version):
            why = 'must be "latest" or "v1.x"'
            causes.append(invalid_value(f"{at}-version]", version, why))
    if causes:
        raise invalid("", "Namespace", obj["metadata"]["name"], causes)
