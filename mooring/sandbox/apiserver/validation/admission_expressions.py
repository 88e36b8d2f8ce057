"""CEL expressions of admission policies and webhooks: their names and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from mooring.cel import CelCompileError, checker
from mooring.cel.checker import Environment
from mooring.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, full_name, list_of, map_of
from mooring.sandbox.apiserver.errors import Cause, invalid_value

_AUTHORIZER: Final = Type("kubernetes.authorization.Authorizer")
_RESOURCE_CHECK: Final = Type("kubernetes.authorization.ResourceCheck")
_TEXTS: Final = list_of(STRING)
_TEXT_MAP: Final = map_of(STRING, STRING)
_KIND: Final = Type("kubernetes.GroupVersionKind")
_RESOURCE: Final = Type("kubernetes.GroupVersionResource")
_USER: Final = Type("kubernetes.UserInfo")
_REQUEST: Final = Type("kubernetes.AdmissionRequest")
_NAMESPACE: Final = Type("kubernetes.Namespace")
_VARIABLES: Final = Type("kubernetes.variables")
FIELDS: Final[Mapping[str, Mapping[str, Type]]] = {
    _KIND.name: {"group": STRING, "version": STRING, "kind": STRING},
    _RESOURCE.name: {"group": STRING, "version": STRING, "resource": STRING},
    _USER.name: {"username": STRING, "uid": STRING, "groups": _TEXTS, "extra": map_of(STRING, _TEXTS)},
    _REQUEST.name: {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
    _NAMESPACE.name: {
        "metadata": Type("kubernetes.NamespaceMetadata"),
        "spec": Type("kubernetes.NamespaceSpec"),
        "status": Type("kubernetes.NamespaceStatus"),
    },
    "kubernetes.NamespaceMetadata": {
        **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), STRING),
        **dict.fromkeys(("labels", "annotations"), _TEXT_MAP),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP),
        **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT),
        "finalizers": _TEXTS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceStatus": {
        "conditions": list_of(Type("kubernetes.NamespaceCondition")),
        "phase": STRING,
    },
    "kubernetes.NamespaceCondition": {
        **dict.fromkeys(("status", "type", "message", "reason"), STRING),
        "lastTransitionTime": TIMESTAMP,
    },
    "JSONPatch": {"op": STRING, "from": STRING, "path": STRING, "value": DYN},
}
_PATCH_TYPES: Final = ("Object", "JSONPatch")

Variables = Mapping[str, Type]
"""Types of a policy's own variables by name."""


def declarations(
    *,
    params: bool,
    authorizer: bool = True,
    variables: Variables | None = None,
    patches: bool = False,
    types: Mapping[str, Type] | None = None,
    fields: Mapping[str, Mapping[str, Type]] | None = None,
) -> Environment:
    """Return what an expression may refer to. `types` and `fields` replace types that are dyn by default."""
    names: dict[str, Type] = {
        "object": DYN,
        "oldObject": DYN,
        "namespaceObject": _NAMESPACE,
        "request": _REQUEST,
    }
    if params:
        names["params"] = DYN
    if authorizer:
        names["authorizer"] = _AUTHORIZER
        names["authorizer.requestResource"] = _RESOURCE_CHECK
    known = {**FIELDS, **(fields or {})}
    if variables is not None:
        names["variables"] = _VARIABLES
        known[_VARIABLES.name] = variables
    return Environment({**names, **(types or {})}, known, structs=_PATCH_TYPES if patches else ())


class CheckedExpression(NamedTuple):
    """The type of an expression, or what is wrong with it."""

    type: Type
    problem: str = ""


def check_expression(expression: str, environment: Environment) -> CheckedExpression:
    """Check an expression of a policy or webhook."""
    try:
        return CheckedExpression(checker.check_expression(expression, environment).result)
    except CelCompileError as error:
        return CheckedExpression(DYN, f"compilation failed: {error}")


@lru_cache(maxsize=1024)
def _plain(expression: str, params: bool, authorizer: bool) -> CheckedExpression:
    return check_expression(expression, declarations(params=params, authorizer=authorizer))


def check_plain(expression: str, *, params: bool, authorizer: bool = True) -> CheckedExpression:
    """Check an expression without variables of a policy; results are kept."""
    return _plain(expression, params, authorizer)


def problems(path: str, expression: str, checked: CheckedExpression, allowed: Sequence[Type]) -> list[Cause]:
    """Return what is wrong with an expression, which must evaluate to one of the allowed types."""
    if checked.problem:
        return [invalid_value(path, expression, checked.problem)]
    if checked.type in allowed:
        return []
    names = [str(full_name(one)) for one in allowed]
    expected = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
    return [invalid_value(path, expression, f"must evaluate to {expected} but got {full_name(checked.type)}")]
