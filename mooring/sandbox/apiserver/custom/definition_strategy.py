"""The strategy of CustomResourceDefinitions themselves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from mooring.sandbox.apiserver.context.calls import TooLongError
from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.custom.definition_names import Acceptance
from mooring.sandbox.apiserver.custom.definition_validation import (
    check_definition,
    check_definition_update,
    condition,
)
from mooring.sandbox.apiserver.custom.formats import is_known
from mooring.sandbox.apiserver.custom.rules import LONG_RULES, rules_length
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

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        status = obj["status"] = dict(obj.get("status") or {})
        stored = status.get("storedVersions") or []
        status["storedVersions"] = [
            *stored,
            *(name for name in _storage_version(obj) if name not in stored),
        ]

    def finish_validation(
        self, write: Write, obj: Tree, old: Tree | None, causes: list[Cause]
    ) -> list[Cause]:
        if write.subresource:
            return []
        found = self._check(write, obj, old)
        if not causes and not found and (old is None or obj["spec"] != old.get("spec")):
            present = set() if old is None else set(_warnings(old))
            write.warnings += [warning for warning in _warnings(obj) if warning not in present]
        return found

    def _check(self, write: Write, obj: Tree, old: Tree | None) -> list[Cause]:
        """Check a definition. Raises TooLongError if compiling its rules takes long."""
        check = partial(check_definition, obj) if old is None else partial(check_definition_update, obj, old)
        if old is not None and obj["spec"] == old.get("spec"):
            return check()
        schemas = [dig(version, "schema", "openAPIV3Schema") for version in obj["spec"].get("versions") or ()]
        is_long = sum(rules_length(schema) for schema in schemas if schema) > LONG_RULES
        if is_long and not write.api.may_take_long:
            raise TooLongError
        return check()

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
    """Warn about formats that are not checked."""
    warnings = []
    for version in dig(obj, "spec", "versions") or ():
        schema = dig(version, "schema", "openAPIV3Schema") or {}
        for node in _nodes(schema):
            name = node.get("format")
            if name and not is_known(name, node.get("type") or ""):
                warnings.append(f'unrecognized format "{name}"')
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
