"""Warnings about pods and pod templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.names import label_value
from mooring.sandbox.apiserver.validation.warnings.containers import (
    container_warnings,
    placed_containers,
    port_warnings,
)
from mooring.sandbox.apiserver.validation.warnings.storage import claim_spec_warnings
from mooring.sandbox.apiserver.validation.warnings.texts import (
    address,
    label_key,
    selected_keys,
    selected_labels,
    whole_bytes,
)
from mooring.sandbox.apiserver.validation.warnings.volume_paths import overlapping_paths

_SYSCTLS: Final = 'non-functional in v1.11+; use the "sysctls" field instead'
_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": _SYSCTLS,
    "security.alpha.kubernetes.io/unsafe-sysctls": _SYSCTLS,
}
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_PATHS: Final = {"storageos": "storageOS"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def template_warnings(template: Tree, prefix: str = "") -> Iterator[str]:
    """Warn about a pod, or about the template at `prefix`, which ends with a dot."""
    spec = template.get("spec") or {}
    annotations = dig(template, "metadata", "annotations") or {}
    path, annotations_path = f"{prefix}spec", f"{prefix}metadata.annotations"
    containers = placed_containers(path, spec)
    yield from _placement(path, spec)
    for key, why in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{annotations_path}[{key}]: {why}"
    yield from _volumes(path, spec.get("volumes") or ())
    yield from _duplicates(path, spec)
    yield from whole_bytes(f"{path}.overhead", spec.get("overhead"), "memory", "ephemeral-storage")
    if _SECCOMP in annotations and not dig(spec, "securityContext", "seccompProfile"):
        instead = 'use the "seccompProfile" field instead'
        yield f"{annotations_path}[{_SECCOMP}]: non-functional in v1.27+; {instead}"
    for container_path, container in containers:
        yield from container_warnings(container_path, container, annotations_path, annotations)
    yield from port_warnings(containers)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        yield (
            f"{path}.terminationGracePeriodSeconds: must be >= 0; "
            "negative values are invalid and will be treated as 1"
        )
    yield from _pod_affinities(path, spec.get("affinity") or {})
    for index, server in enumerate(dig(spec, "dnsConfig", "nameservers") or ()):
        yield from address(f"{path}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from address(f"{path}.hostAliases[{index}].ip", alias.get("ip", ""))


def _placement(path: str, spec: Tree) -> Iterator[str]:
    yield from selected_labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    affinity = dig(spec, "affinity", "nodeAffinity") or {}
    terms = f"{path}.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    for index, term in enumerate(dig(affinity, _REQUIRED, "nodeSelectorTerms") or ()):
        yield from selected_keys(f"{terms}[{index}]", term)
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        term_path = f"{path}.affinity.nodeAffinity.{_PREFERRED}[{index}].preference"
        yield from _preference(term_path, weighted.get("preference") or {})
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        place = f"{path}.topologySpreadConstraints[{index}]"
        yield from label_key(f"{place}.topologyKey", constraint["topologyKey"])
        yield from _selects(place, constraint)


def _preference(path: str, term: Tree) -> Iterator[str]:
    yield from selected_keys(path, term)
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        for at, value in enumerate(expression.get("values") or ()):
            for problem in label_value(value):
                yield f"{path}.matchExpressions[{index}].values[{at}]: {value} is invalid, {problem}"


def _selects(path: str, term: Tree) -> Iterator[str]:
    if term.get("labelSelector") is None:
        yield f"{path}.labelSelector: a null labelSelector results in matching no pod"


def _pod_affinities(path: str, affinity: Tree) -> Iterator[str]:
    for member in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(member) or {}
        for index, term in enumerate(rules.get(_REQUIRED) or ()):
            yield from _selects(f"{path}.affinity.{member}.{_REQUIRED}[{index}]", term)
        for index, weighted in enumerate(rules.get(_PREFERRED) or ()):
            place = f"{path}.affinity.{member}.{_PREFERRED}[{index}].podAffinityTerm"
            yield from _selects(place, weighted.get("podAffinityTerm") or {})


def _volumes(path: str, volumes: Iterable[Tree]) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        for member, why in _VOLUMES.items():
            if volume.get(member) is not None:
                yield f"{path}.volumes[{index}].{_PATHS.get(member, member)}: {why}"
        claim = dig(volume, "ephemeral", "volumeClaimTemplate", "spec")
        if claim:
            place = f"{path}.volumes[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from claim_spec_warnings(place, claim)
    yield from overlapping_paths(volumes)


def _duplicates(path: str, spec: Tree) -> Iterator[str]:
    for member, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(member) or ()):
            value = item.get(key, "")
            if value in seen:
                yield f'{path}.{member}[{index}].{key}: duplicate {key} "{value}"'
            seen.add(value)
    for index, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
