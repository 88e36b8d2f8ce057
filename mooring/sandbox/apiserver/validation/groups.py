"""Workloads and PodGroups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.sandbox.apiserver.errors import (
    duplicate,
    invalid_value,
    not_found_value,
    not_supported,
    required,
    too_many,
)
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.claim_status import conditions
from mooring.sandbox.apiserver.validation.fields import IMMUTABLE, Causes, required_text, text
from mooring.sandbox.apiserver.validation.names import dns_label, dns_subdomain, path_segment, qualified_name

_MAX_TEMPLATES, _MAX_CLAIMS, _MAX_CONSTRAINTS = 8, 4, 1
_MAX_PRIORITY: Final = 1_000_000_000
_MODES: Final = ("Pod", "PodGroup")
_IMMUTABLE: Final = (
    "podGroupTemplateRef",
    "schedulingPolicy",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
)
_CLAIM_SOURCES: Final = ("resourceClaimName", "resourceClaimTemplateName")


def workload(obj: Tree) -> Causes:
    spec = obj["spec"]
    controller = spec.get("controllerRef")
    if controller is not None:
        path = "spec.controllerRef"
        if controller.get("apiGroup"):
            yield from text(f"{path}.apiGroup", controller["apiGroup"], _long_name)
        yield from required_text(f"{path}.kind", controller.get("kind"), path_segment)
        yield from required_text(f"{path}.name", controller.get("name"), path_segment)
    path, templates = "spec.podGroupTemplates", spec.get("podGroupTemplates") or ()
    if not templates:
        yield required(path)
    elif len(templates) > _MAX_TEMPLATES:
        yield too_many(path, len(templates), _MAX_TEMPLATES)
        return
    yield from _distinct(path, templates)
    for index, template in enumerate(templates):
        yield from required_text(f"{path}[{index}].name", template.get("name"), _short_name)
        yield from _terms(f"{path}[{index}]", template)


def workload_update(obj: Tree, old: Tree) -> Causes:
    yield from _unchanged(obj, old, "controllerRef", "podGroupTemplates")


def pod_group(obj: Tree) -> Causes:
    spec = obj["spec"]
    reference = spec.get("podGroupTemplateRef")
    if reference is not None:
        path = "spec.podGroupTemplateRef"
        yield from _exactly_one(path, reference, ("workload",))
        template = reference.get("workload")
        if template is not None:
            path += ".workload"
            yield from required_text(f"{path}.workloadName", template.get("workloadName"), _long_name)
            name = template.get("podGroupTemplateName")
            yield from required_text(f"{path}.podGroupTemplateName", name, _short_name)
    yield from _terms("spec", spec)


def pod_group_update(obj: Tree, old: Tree) -> Causes:
    yield from _unchanged(obj, old, *_IMMUTABLE)


def pod_group_status(obj: Tree, old: Tree) -> Causes:
    status = obj.get("status") or {}
    yield from conditions("status.conditions", status.get("conditions") or ())
    names = {claim.get("name") for claim in obj["spec"].get("resourceClaims") or ()}
    for index, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        if claim.get("name") not in names:
            yield not_found_value(f"status.resourceClaimStatuses[{index}].name", claim.get("name", ""))


def scheduling_group(path: str, group: Tree) -> Causes:
    """Validate the reference of a pod to its group."""
    name = group.get("podGroupName")
    if name is None:
        yield invalid_value(f"{path}.podGroupName", None, "must specify one of: `podGroupName`")
    else:
        yield from text(f"{path}.podGroupName", name, dns_subdomain)


def _long_name(value: str) -> list[str]:
    return _in_bytes(dns_subdomain(value))


def _short_name(value: str) -> list[str]:
    return _in_bytes(dns_label(value))


def _in_bytes(problems: Sequence[str]) -> list[str]:
    """Problems as the declarative validation of these kinds words them."""
    return [
        problem.replace(" characters", " bytes") if "no more than" in problem else problem
        for problem in problems
    ]


def _terms(path: str, spec: Tree) -> Causes:
    """Validate what templates and groups have in common."""
    policy = spec.get("schedulingPolicy") or {}
    yield from _exactly_one(f"{path}.schedulingPolicy", policy, ("basic", "gang"))
    gang = policy.get("gang")
    if gang is not None:
        yield from _min_count(f"{path}.schedulingPolicy.gang.minCount", gang.get("minCount") or 0)
    constraints = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    yield from _topology(f"{path}.schedulingConstraints.topology", constraints)
    yield from _claims(f"{path}.resourceClaims", spec.get("resourceClaims") or ())
    mode = spec.get("disruptionMode")
    if mode is not None and mode not in _MODES:
        yield not_supported(f"{path}.disruptionMode", mode, _MODES)
    if spec.get("priorityClassName"):
        yield from text(f"{path}.priorityClassName", spec["priorityClassName"], _long_name)
    priority = spec.get("priority")
    if priority is not None and priority > _MAX_PRIORITY:
        yield invalid_value(f"{path}.priority", priority, f"must be less than or equal to {_MAX_PRIORITY}")


def _min_count(path: str, count: int) -> Causes:
    if not count:
        yield required(path)
    elif count < 1:
        yield invalid_value(path, count, "must be greater than or equal to 1")


def _topology(path: str, constraints: Sequence[Tree]) -> Causes:
    if len(constraints) > _MAX_CONSTRAINTS:
        yield too_many(path, len(constraints), _MAX_CONSTRAINTS)
        return
    for index, constraint in enumerate(constraints):
        yield from required_text(f"{path}[{index}].key", constraint.get("key"), qualified_name)


def _claims(path: str, claims: Sequence[Tree]) -> Causes:
    if len(claims) > _MAX_CLAIMS:
        yield too_many(path, len(claims), _MAX_CLAIMS)
        return
    yield from _distinct(path, claims)
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        yield from _exactly_one(at, claim, _CLAIM_SOURCES)
        yield from required_text(f"{at}.name", claim.get("name"), _short_name)
        for source in _CLAIM_SOURCES:
            if claim.get(source) is not None:
                yield from text(f"{at}.{source}", claim[source], _long_name)


def _distinct(path: str, items: Sequence[Tree]) -> Causes:
    names: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        if name in names:
            yield duplicate(f"{path}[{index}]", item)
        names.add(name)


def _exactly_one(path: str, value: Tree, names: Sequence[str]) -> Causes:
    """Validate a union."""
    present = [name for name in names if value.get(name) is not None]
    choices = ", ".join(f"`{name}`" for name in names)
    if not present:
        yield invalid_value(path, "", f"must specify one of: {choices}")
    elif len(present) > 1:
        yield invalid_value(path, f"{{{', '.join(present)}}}", f"must specify exactly one of: {choices}")


def _unchanged(obj: Tree, old: Tree, *names: str) -> Causes:
    for name in names:
        if obj["spec"].get(name) != old["spec"].get(name):
            yield invalid_value(f"spec.{name}", None, IMMUTABLE)
