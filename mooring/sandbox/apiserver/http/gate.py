"""Authorization and impersonation of requests over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import ACCOUNT, User, service_account
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.http.paths import Target
from mooring.sandbox.apiserver.verbs.selectors import parse_fields

_AUTHENTICATED: Final = "system:authenticated"


def attributes_of(verb: str, target: Target, params: Mapping[str, list[str]]) -> Attributes:
    """Return what a request to objects of the API is about to do."""
    resource, part = target.resource, target.subresource
    named = f"{resource.plural}/{part.name}" if part is not None else resource.plural
    namespace = target.name if resource.storage == "namespaces" else target.namespace
    name = target.name
    if not name and verb in ("list", "watch"):
        name = _only_name((params.get("fieldSelector") or [""])[0])
    return Attributes(verb, resource.group, named, namespace, name)


def _only_name(selector: str) -> str:
    """Return the name of the only object that a field selector selects; empty if it may select more."""
    with suppress(ApiError):  # reported when the selector is used
        terms = parse_fields(selector)
        return next((term.value for term in terms if term.field == "metadata.name" and term.equal), "")
    return ""


def acting(api: Api, user: User, headers: Iterable[tuple[bytes, bytes]]) -> User:
    """Return the user that a request acts as: its own, or the impersonated one if allowed. Raises 403."""
    prefix = b"impersonate-"
    impersonation = [
        (name.removeprefix(prefix), value.decode("latin-1"))
        for name, value in headers
        if name.startswith(prefix)
    ]
    if not impersonation:
        return user
    names = [value for name, value in impersonation if name == b"user"]
    groups = [value for name, value in impersonation if name == b"group"]
    if not names:
        raise bad_request("requested to impersonate without a user: the header Impersonate-User is missing")
    name = names[0]
    if name.startswith(ACCOUNT):
        namespace, _, account = name.removeprefix(ACCOUNT).partition(":")
        api.rbac.check(user, Attributes("impersonate", "", "serviceaccounts", namespace, account))
        groups = groups or list(service_account(namespace, account).groups)
    else:
        api.rbac.check(user, Attributes("impersonate", "", "users", "", name))
    for group in (value for name, value in impersonation if name == b"group"):
        api.rbac.check(user, Attributes("impersonate", "", "groups", "", group))
    uid, extras = "", dict[str, tuple[str, ...]]()
    for kind, value in impersonation:
        if kind == b"uid":
            uid = value
            api.rbac.check(user, Attributes("impersonate", "authentication.k8s.io", "uids", "", value))
        elif kind.startswith(b"extra-"):
            extra = unquote(kind.removeprefix(b"extra-").decode("latin-1"))
            extras[extra] = (*extras.get(extra, ()), value)
            api.rbac.check(
                user, Attributes("impersonate", "authentication.k8s.io", f"userextras/{extra}", "", value)
            )
    if name != "system:anonymous" and _AUTHENTICATED not in groups:
        groups = [*groups, _AUTHENTICATED]
    return User(name, tuple(groups), uid, tuple(extras.items()))
