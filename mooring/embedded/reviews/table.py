"""Which question is answered where. Whoever has the token may do everything, and the answers say so."""

from __future__ import annotations

from collections.abc import Callable

from mooring.embedded.accounts import AUDIENCE, user_of
from mooring.embedded.errors import bad_request
from mooring.embedded.objects import Tree, dig
from mooring.embedded.subresources.binding import bind_named
from mooring.embedded.verbs.api import User
from mooring.embedded.verbs.body import read_object
from mooring.embedded.verbs.request import Answer, Request, TreeAnswer


def _question(request: Request) -> Tree:
    write = request.write("CREATE")
    resource = request.resource
    obj = read_object(write, request.body, request.content_type, resource.codec, resource.gvk)
    obj.setdefault("metadata", {})
    return obj


def _shown(user: User) -> Tree:
    return {"username": user.name, "groups": list(user.groups)}


def _who_am_i(request: Request) -> Answer:
    return TreeAnswer({**_question(request), "status": {"userInfo": _shown(request.user)}}, 201)


def _is_token_good(request: Request) -> Answer:
    question = _question(request)
    spec = question.get("spec") or {}
    token, audiences = spec.get("token", ""), spec.get("audiences") or [AUDIENCE]
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    user = user_of(request.api, token)
    status: Tree = {"user": {}}
    if user is not None and AUDIENCE in audiences:
        status = {"authenticated": True, "user": _shown(user), "audiences": [AUDIENCE]}
    return TreeAnswer({**question, "status": status}, 201)


def _may(request: Request) -> Answer:
    question = _question(request)
    spec = question.get("spec") or {}
    if not spec.get("resourceAttributes") and not spec.get("nonResourceAttributes"):
        raise bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    reason = "everybody with the token may do everything in an embedded cluster"
    return TreeAnswer({**question, "status": {"allowed": True, "reason": reason}}, 201)


def _what_may_i(request: Request) -> Answer:
    question = _question(request)
    if not dig(question, "spec", "namespace"):
        raise bad_request("no namespace on request")
    status = {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
    return TreeAnswer({**question, "status": status}, 201)


REVIEWS: dict[str, Callable[[Request], Answer]] = {
    "bindings": bind_named,
    "localsubjectaccessreviews.authorization.k8s.io": _may,
    "selfsubjectaccessreviews.authorization.k8s.io": _may,
    "selfsubjectreviews.authentication.k8s.io": _who_am_i,
    "selfsubjectrulesreviews.authorization.k8s.io": _what_may_i,
    "subjectaccessreviews.authorization.k8s.io": _may,
    "tokenreviews.authentication.k8s.io": _is_token_good,
}
"""By table, though nothing of these is ever stored."""
