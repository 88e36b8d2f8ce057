"""Reviews: kinds that are requests for an answer, and are not stored."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mooring.sandbox.apiserver.accounts import AUDIENCE, user_of
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.errors import bad_request, invalid, invalid_value
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.subresources.binding import bind_named
from mooring.sandbox.apiserver.verbs.body import read_object
from mooring.sandbox.apiserver.verbs.request import Answer, Request, TreeAnswer


def _question(request: Request) -> Tree:
    write = request.write("CREATE")
    resource = request.resource
    obj = read_object(write, request.body, request.content_type, resource.codec, resource.gvk)
    obj.setdefault("metadata", {})
    return obj


def _who_am_i(request: Request) -> Answer:
    question = _question(request)
    question["metadata"]["creationTimestamp"] = request.api.now()
    return TreeAnswer({**question, "status": {"userInfo": request.user.info}}, 201)


def _is_token_good(request: Request) -> Answer:
    question = _question(request)
    spec = question.get("spec") or {}
    token, audiences = spec.get("token", ""), spec.get("audiences") or [AUDIENCE]
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    user = user_of(request.api, token)
    status: Tree = {"user": {}}
    if user is not None and AUDIENCE in audiences:
        status = {"authenticated": True, "user": user.info, "audiences": [AUDIENCE]}
    return TreeAnswer({**question, "status": status}, 201)


def _may_i(request: Request) -> Answer:
    question = _question(request)
    return _decided(request, question, request.user)


def _may(request: Request) -> Answer:
    question = _question(request)
    spec = question.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        why = "at least one of user or group must be specified"
        raise invalid("", "", "", [invalid_value("spec.user", "", why)])
    return _decided(request, question, User(spec.get("user", ""), tuple(spec.get("groups") or ())))


def _decided(request: Request, question: Tree, user: User) -> Answer:
    spec = question.get("spec") or {}
    about, path = spec.get("resourceAttributes") or {}, spec.get("nonResourceAttributes") or {}
    if bool(about) == bool(path):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid("", "", "", [invalid_value("spec.resourceAttributes", about or None, why)])
    if path:
        attributes = Attributes(path.get("verb", ""), path=path.get("path", ""))
    else:
        part = about.get("subresource", "")
        named = f"{about.get('resource', '')}/{part}" if part else about.get("resource", "")
        names = (about.get(name, "") for name in ("namespace", "name"))
        attributes = Attributes(about.get("verb", ""), about.get("group", ""), named, *names)
    decision = request.api.rbac.decide(user, attributes)
    status: Tree = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return TreeAnswer({**question, "status": status}, 201)


def _what_may_i(request: Request) -> Answer:
    question = _question(request)
    namespace = dig(question, "spec", "namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    rules = request.api.rbac.rules(request.user, namespace)
    status = {
        "resourceRules": [msgspec.to_builtins(rule) for rule in rules if rule.resources],
        "nonResourceRules": [msgspec.to_builtins(rule) for rule in rules if rule.non_resource_urls],
        "incomplete": False,
    }
    return TreeAnswer({**question, "status": status}, 201)


REVIEWS: dict[str, Callable[[Request], Answer]] = {
    "bindings": bind_named,
    "localsubjectaccessreviews.authorization.k8s.io": _may,
    "selfsubjectaccessreviews.authorization.k8s.io": _may_i,
    "selfsubjectreviews.authentication.k8s.io": _who_am_i,
    "selfsubjectrulesreviews.authorization.k8s.io": _what_may_i,
    "subjectaccessreviews.authorization.k8s.io": _may,
    "tokenreviews.authentication.k8s.io": _is_token_good,
}
"""By table, though none of these is ever stored."""
