"""The strategy of CustomResourceDefinitions themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.custom.definition_names import Acceptance
from mooring.sandbox.apiserver.custom.definition_validation import (
    check_definition,
    check_definition_update,
    condition,
)
from mooring.sandbox.apiserver.custom.formats import is_known
from mooring.sandbox.apiserver.errors import Cause
from mooring.sandbox.apiserver.kinds.schema_leaves import is_leaf
from mooring.sandbox.apiserver.objects import Tree, dig

STORAGE: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are deleted."""


class DefinitionStrategy(Strategy):
    """Defaults the names of definitions, and deletes them only after their objects."""

    def default(self, obj: Tree) -> None:
        spec = obj.setdefault("spec", {})
        names, kind = spec.setdefault("names", {}), dig(spec, "names", "kind") or ""
        if kind:
            names.setdefault("singular", kind.lower())
            names.setdefault("listKind", f"{kind}List")
        if not spec.get("conversion"):
            spec["conversion"] = {"strategy": "None"}

    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _storage_version(obj) or None,
        }
        write.warnings += _warnings(obj)

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        status = obj["status"] = dict(obj.get("status") or {})
        stored = status.get("storedVersions") or []
        status["storedVersions"] = [
            *stored,
            *(name for name in _storage_version(obj) if name not in stored),
        ]
        if obj["spec"] != old.get("spec"):
            present = set(_warnings(old))
            write.warnings += [warning for warning in _warnings(obj) if warning not in present]

    def validate_create(self, obj: Tree) -> list[Cause]:
        return super().validate_create(obj) + check_definition(obj)

    def validate_update(self, obj: Tree, old: Tree) -> list[Cause]:
        return check_definition_update(obj, old)

    def held(self, obj: Tree) -> bool:
        """A definition is never removed at once: its objects are deleted first."""
        return super().held(obj) or "deletionTimestamp" not in obj["metadata"]

    def mark_deleted(self, obj: Tree) -> None:
        metadata = obj["metadata"]
        metadata.pop("deletionGracePeriodSeconds", None)
        finalizers = metadata.setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            metadata["generation"] -= 1  # this does not change what it defines
            finalizers.append(CLEANUP)
            why = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
            now = metadata["deletionTimestamp"]
            set_condition(obj, "Terminating", "True", "InstanceDeletionPending", why, now)


def _storage_version(obj: Tree) -> list[str]:
    versions = dig(obj, "spec", "versions") or []
    return [version.get("name", "") for version in versions if version.get("storage")][:1]


def set_condition(obj: Tree, type: str, status: str, reason: str, message: str, now: str) -> None:
    """Set a condition of a definition; its time changes with its status only."""
    present: list[Tree] = dig(obj, "status", "conditions") or []
    since = now
    for one in present:
        if one["type"] == type and one["status"] == status:
            since = one["lastTransitionTime"]
    fresh = {
        "type": type,
        "status": status,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    replaced = [fresh if one["type"] == type else one for one in present]
    obj["status"]["conditions"] = replaced if fresh in replaced else [*present, fresh]


def settle_names(obj: Tree, acceptance: Acceptance, now: str) -> None:
    """Set the granted names and the conditions in the status of a definition."""
    obj["status"]["acceptedNames"] = acceptance.names
    accepted = "True" if acceptance.complete else "False"
    set_condition(obj, "NamesAccepted", accepted, acceptance.reason, acceptance.message, now)
    if acceptance.complete:
        why = "the initial names have been accepted"
        if condition(obj, "Established") != "True":
            set_condition(obj, "Established", "True", "InitialNamesAccepted", why, now)
    elif not condition(obj, "Established"):
        set_condition(obj, "Established", "False", "NotAccepted", "not all names are accepted", now)


# ---- warnings -------------------------------------------------------------------------------------


def _warnings(obj: Tree) -> list[str]:
    """Warn about what a definition uses and this server does not support."""
    warnings = []
    if dig(obj, "spec", "conversion", "strategy") == "Webhook":
        warnings.append(
            "spec.conversion.strategy: the webhook is not called, versions differ in apiVersion only"
        )
    for index, version in enumerate(dig(obj, "spec", "versions") or ()):
        schema = dig(version, "schema", "openAPIV3Schema") or {}
        has_rules = False
        for node in _nodes(schema):
            has_rules = has_rules or bool(node.get("x-kubernetes-validations"))
            name = node.get("format")
            if name and not is_known(name, node.get("type") or ""):
                warnings.append(f'unrecognized format "{name}"')
        if has_rules:
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            warnings.append(f"{path}: x-kubernetes-validations are kept and not evaluated")
    return warnings


def _nodes(schema: Tree) -> Iterator[Tree]:
    """Yield a schema and all schemas in it, in order."""
    left: list[Any] = [schema]
    while left:
        one = left.pop()
        if not isinstance(one, dict):
            continue
        yield one
        if is_leaf(one):
            continue
        below = [*(one.get("properties") or {}).values(), one.get("items"), one.get("additionalProperties")]
        below.append(one.get("not"))
        for junctor in ("allOf", "anyOf", "oneOf"):
            below += one.get(junctor) or []
        left += reversed(below)
