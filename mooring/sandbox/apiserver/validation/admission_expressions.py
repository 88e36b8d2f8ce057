"""CEL expressions of admission policies and webhooks: their names and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from mooring.sandbox.apiserver.errors import Cause, invalid_value
from mooring.sandbox.apiserver.validation.expression_check import (
    CheckedExpression,
    Declarations,
    check_expression,
    full_name,
)
from mooring.sandbox.apiserver.validation.expression_types import (
    AUTHORIZER,
    BOOL,
    DYNAMIC,
    INT,
    RESOURCE_CHECK,
    TEXT,
    TIMESTAMP,
)

_TEXTS: Final = "list(string)"
_TEXT_MAP: Final = "map(string, string)"
_KIND: Final = "kubernetes.GroupVersionKind"
_RESOURCE: Final = "kubernetes.GroupVersionResource"
_USER: Final = "kubernetes.UserInfo"
_REQUEST: Final = "kubernetes.AdmissionRequest"
_NAMESPACE: Final = "kubernetes.Namespace"
_VARIABLES: Final = "kubernetes.variables"
FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    _KIND: {"group": TEXT, "version": TEXT, "kind": TEXT},
    _RESOURCE: {"group": TEXT, "version": TEXT, "resource": TEXT},
    _USER: {"username": TEXT, "uid": TEXT, "groups": _TEXTS, "extra": f"map(string, {_TEXTS})"},
    _REQUEST: {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": TEXT,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": TEXT,
        "name": TEXT,
        "namespace": TEXT,
        "operation": TEXT,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYNAMIC,
    },
    _NAMESPACE: {
        "metadata": "kubernetes.NamespaceMetadata",
        "spec": "kubernetes.NamespaceSpec",
        "status": "kubernetes.NamespaceStatus",
    },
    "kubernetes.NamespaceMetadata": {
        **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), TEXT),
        **dict.fromkeys(("labels", "annotations"), _TEXT_MAP),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP),
        **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT),
        "finalizers": _TEXTS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceStatus": {"conditions": "list(kubernetes.NamespaceCondition)", "phase": TEXT},
    "kubernetes.NamespaceCondition": {
        **dict.fromkeys(("status", "type", "message", "reason"), TEXT),
        "lastTransitionTime": TIMESTAMP,
    },
    "JSONPatch": {"op": TEXT, "from": TEXT, "path": TEXT, "value": DYNAMIC},
}
_PATCH_TYPES: Final = ("Object", "JSONPatch")

Variables = Mapping[str, str]
"""Types of a policy's own variables by name."""


def declarations(
    *,
    params: bool,
    authorizer: bool = True,
    variables: Variables | None = None,
    patches: bool = False,
    types: Mapping[str, str] | None = None,
    fields: Mapping[str, Mapping[str, str]] | None = None,
) -> Declarations:
    """Return what an expression may refer to. `types` and `fields` replace types that are dyn by default."""
    names = {"object": DYNAMIC, "oldObject": DYNAMIC, "namespaceObject": _NAMESPACE, "request": _REQUEST}
    if params:
        names["params"] = DYNAMIC
    if authorizer:
        names["authorizer"] = AUTHORIZER
        names["authorizer.requestResource"] = RESOURCE_CHECK
    known = {**FIELDS, **(fields or {})}
    if variables is not None:
        names["variables"] = _VARIABLES
        known[_VARIABLES] = variables
    return Declarations({**names, **(types or {})}, known, _PATCH_TYPES if patches else ())


@lru_cache(maxsize=1024)
def _plain(expression: str, params: bool, authorizer: bool) -> CheckedExpression:
    return check_expression(expression, declarations(params=params, authorizer=authorizer))


def check_plain(expression: str, *, params: bool, authorizer: bool = True) -> CheckedExpression:
    """Check an expression without variables of a policy; results are kept."""
    return _plain(expression, params, authorizer)


def problems(path: str, expression: str, checked: CheckedExpression, allowed: Sequence[str]) -> list[Cause]:
    """Return what is wrong with an expression, which must evaluate to one of the allowed types."""
    if checked.problem:
        return [invalid_value(path, expression, checked.problem)]
    result = checked.type
    if result in allowed or (result == DYNAMIC and not checked.dynamic):
        return []
    found = full_name(result)
    names = [full_name(one) for one in allowed]
    expected = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
    return [invalid_value(path, expression, f"must evaluate to {expected} but got {found}")]
