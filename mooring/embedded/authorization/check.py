"""Refusing what nobody allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.cluster.errors import ApiError
from mooring.embedded.authorization.rules import Asked
from mooring.embedded.errors import qualified, show

if TYPE_CHECKING:
    from mooring.embedded.verbs.api import Api, User


def check(api: Api, user: User, asked: Asked) -> None:
    """Raises 403 where somebody may not do what they ask for."""
    decision = api.rbac.decide(user, asked)
    if not decision.allowed:
        raise _forbidden(user, asked, decision.reason)


def _forbidden(user: User, asked: Asked, reason: str) -> ApiError:
    if asked.path:
        told = f"forbidden: User {show(user.name)} cannot {asked.verb} path {show(asked.path)}"
        return ApiError(403, "Forbidden", _with(told, reason), details={})
    plural = asked.resource.partition("/")[0]
    where = f"in the namespace {show(asked.namespace)}" if asked.namespace else "at the cluster scope"
    what = qualified(asked.group, plural) + (f" {show(asked.name)}" if asked.name else "")
    told = (
        f"{what} is forbidden: User {show(user.name)} cannot {asked.verb} resource {show(asked.resource)} "
        f"in API group {show(asked.group)} {where}"
    )
    details = {"name": asked.name, "group": asked.group, "kind": plural}
    present = {name: value for name, value in details.items() if value}
    return ApiError(403, "Forbidden", _with(told, reason), details=present)


def _with(told: str, reason: str) -> str:
    return f"{told}: {reason}" if reason else told
