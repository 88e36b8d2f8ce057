"""Refusing what nobody allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.client.errors import ApiError
from mooring.sandbox.apiserver.authorization.rules import Asked
from mooring.sandbox.apiserver.errors import forbidden, show

if TYPE_CHECKING:
    from mooring.sandbox.apiserver.verbs.api import Api, User


def check(api: Api, user: User, asked: Asked) -> None:
    """Raises 403 where somebody may not do what they ask for."""
    decision = api.rbac.decide(user, asked)
    if not decision.allowed:
        raise _forbidden(user, asked, decision.reason)


def _forbidden(user: User, asked: Asked, reason: str) -> ApiError:
    because = f": {reason}" if reason else ""
    if asked.path:
        told = f"forbidden: User {show(user.name)} cannot {asked.verb} path {show(asked.path)}{because}"
        return ApiError(403, "Forbidden", told, details={})
    where = f"in the namespace {show(asked.namespace)}" if asked.namespace else "at the cluster scope"
    why = (
        f"User {show(user.name)} cannot {asked.verb} resource {show(asked.resource)} "
        f"in API group {show(asked.group)} {where}{because}"
    )
    return forbidden(asked.group, asked.resource.partition("/")[0], asked.name, why)
