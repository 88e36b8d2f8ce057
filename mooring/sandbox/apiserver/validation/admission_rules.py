"""Rules that admission policies, their bindings and webhooks share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from mooring.cel.types import BOOL
from mooring.sandbox.apiserver.errors import duplicate, invalid_value, not_supported, required, too_many
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.admission_expressions import check_plain, problems
from mooring.sandbox.apiserver.validation.fields import Causes, one_of, optional_choice, text
from mooring.sandbox.apiserver.validation.labels import label_selector
from mooring.sandbox.apiserver.validation.names import path_segment, qualified_name

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_MOST_CONDITIONS: Final = 64


def match_resources(path: str, resources: Tree) -> Causes:
    yield from one_of(f"{path}.matchPolicy", resources.get("matchPolicy"), MATCH_POLICIES)
    yield from label_selector(f"{path}.namespaceSelector", resources.get("namespaceSelector"))
    yield from label_selector(f"{path}.objectSelector", resources.get("objectSelector"))
    for member in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(member) or ()):
            yield from named_rule(f"{path}.{member}[{index}]", rule)


def named_rule(path: str, rule: Tree) -> Causes:
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        yield from text(f"{path}.resourceNames[{index}]", name, path_segment)
        if name in seen:
            yield duplicate(f"{path}.resourceNames[{index}]", name)
        seen.add(name)
    yield from rule_with_operations(path, rule)


def rule_with_operations(path: str, rule: Tree) -> Causes:
    operations = rule.get("operations") or []
    yield from _not_all_and_others(f"{path}.operations", operations, "operations")
    for index, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, OPERATIONS)
    yield from _not_all_and_others(f"{path}.apiGroups", rule.get("apiGroups") or [], "API groups")
    versions = rule.get("apiVersions") or []
    yield from _not_all_and_others(f"{path}.apiVersions", versions, "API versions")
    for index, version in enumerate(versions):
        if not version:
            yield required(f"{path}.apiVersions[{index}]")
    yield from _resources(f"{path}.resources", rule.get("resources") or [])
    yield from optional_choice(f"{path}.scope", rule.get("scope"), _SCOPES)


def _not_all_and_others(path: str, values: Sequence[str], what: str) -> Causes:
    if not values:
        yield required(path)
    if len(values) > 1 and "*" in values:
        yield invalid_value(path, values, f"if '*' is present, must not specify other {what}")


def _resources(path: str, resources: Sequence[str]) -> Causes:
    if not resources:
        yield required(path)
    whole, parts = set(), set()  # of x/* and */x
    for index, resource in enumerate(resources):
        if not resource:
            yield required(f"{path}[{index}]")
            continue
        name, slash, part = resource.partition("/")
        if not slash:
            continue
        if name in whole:
            why = f"if '{name}/*' is present, must not specify {resource}"
            yield invalid_value(f"{path}[{index}]", resource, why)
        if part in parts:
            why = f"if '*/{part}' is present, must not specify {resource}"
            yield invalid_value(f"{path}[{index}]", resource, why)
        if part == "*":
            whole.add(name)
        if name == "*":
            parts.add(part)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid_value(path, resources, "if '*/*' is present, must not specify other resources")
    plain = [one for one in resources if one and "/" not in one]
    if "*" in plain and plain[-1] != "*":
        why = "if '*' is present, must not specify other resources without subresources"
        yield invalid_value(path, resources, why)


def match_conditions(path: str, conditions: Iterable[Tree] | None, *, params: bool = False) -> Causes:
    every = list(conditions or ())
    if len(every) > _MOST_CONDITIONS:
        yield too_many(path, len(every), _MOST_CONDITIONS)
    seen: set[Any] = set()
    for index, condition in enumerate(every):
        where, name = f"{path}[{index}]", condition.get("name", "")
        expression = condition.get("expression", "").strip()
        if not expression:
            yield required(f"{where}.expression")
        else:
            checked = check_plain(expression, params=params)
            yield from problems(f"{where}.expression", expression, checked, (BOOL,))
        if not name:
            yield required(f"{where}.name")
            continue
        yield from text(f"{where}.name", name, qualified_name)
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
