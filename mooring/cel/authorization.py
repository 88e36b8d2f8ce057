"""The authorizer of admission expressions: what a user may do, asked step by step.

authorizer.group('apps').resource('deployments').namespace('default').check('create').allowed()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mooring.cel.cel_errors import CelError, no_such_overload
from mooring.cel.overloads import overloads
from mooring.cel.scope import Scope
from mooring.cel.values import Extension

_CHECK_COST = 350_000  # as cel-go estimates a call of the authorizer


class Query(NamedTuple):
    """What is asked: a verb on a resource, or on a path."""

    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


Decide = Callable[[tuple[str, str] | None, Query], tuple[bool, str]]
"""Whether a service account (namespace and name; None for the user of the request) may do that, and why."""


class _Receiver(Extension):
    """Base of the values that have methods and nothing else."""

    __slots__ = ()

    def equals(self, other: Any) -> bool:
        raise no_such_overload()


class Authorizer(_Receiver):
    __slots__ = ("account", "decide")
    type_name = native_name = "kubernetes.authorization.Authorizer"

    def __init__(self, decide: Decide, account: tuple[str, str] | None = None) -> None:
        self.decide = decide
        self.account = account


class _Check(_Receiver):
    __slots__ = ("authorizer", "query")

    def __init__(self, authorizer: Authorizer, query: Query) -> None:
        self.authorizer = authorizer
        self.query = query


class PathCheck(_Check):
    __slots__ = ()
    type_name = native_name = "kubernetes.authorization.PathCheck"


class GroupCheck(_Check):
    __slots__ = ()
    type_name = native_name = "kubernetes.authorization.GroupCheck"


class ResourceCheck(_Check):
    __slots__ = ()
    type_name = native_name = "kubernetes.authorization.ResourceCheck"


class Decision(_Receiver):
    __slots__ = ("allowed", "reason")
    type_name = native_name = "kubernetes.authorization.Decision"

    def __init__(self, allowed: bool, reason: str) -> None:
        self.allowed = allowed
        self.reason = reason


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(authorizer, Query(path=path))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(check.authorizer, check.query._replace(resource=resource))


def _with(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    return lambda check, value: ResourceCheck(check.authorizer, check.query._replace(**{field: value}))


def _check(scope: Scope, check: Any, verb: Any) -> Decision:
    if type(check) not in (PathCheck, ResourceCheck) or type(verb) is not str:
        raise no_such_overload()
    scope.spend(_CHECK_COST)
    return Decision(*check.authorizer.decide(check.authorizer.account, check.query._replace(verb=verb)))


METHODS: dict[str, Callable[..., Any]] = {
    "path": overloads(((Authorizer, str), _path)),
    "group": overloads(((Authorizer, str), lambda one, group: GroupCheck(one, Query(group=group)))),
    "serviceAccount": overloads(
        ((Authorizer, str, str), lambda one, namespace, name: Authorizer(one.decide, (namespace, name)))
    ),
    "resource": overloads(((GroupCheck, str), _resource)),
    "subresource": overloads(((ResourceCheck, str), _with("subresource"))),
    "namespace": overloads(((ResourceCheck, str), _with("namespace"))),
    "name": overloads(((ResourceCheck, str), _with("name"))),
    # Roles do not look at selectors, so neither changes the answer.
    "fieldSelector": overloads(((ResourceCheck, str), lambda check, selector: check)),
    "labelSelector": overloads(((ResourceCheck, str), lambda check, selector: check)),
    "check": _check,
    "allowed": overloads(((Decision,), lambda decision: decision.allowed)),
    "reason": overloads(((Decision,), lambda decision: decision.reason)),
    "errored": overloads(((Decision,), lambda decision: False)),
    "error": overloads(((Decision,), lambda decision: "")),
}
