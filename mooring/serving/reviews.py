"""Reviews by the API server: which user a token belongs to, and whether that user is authorized."""

from __future__ import annotations

from typing import Any

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject, Value
from mooring.serving.messages import User


class TokenReviewStatus(Value, frozen=True):
    authenticated: bool = False
    user: User = User()
    error: str = ""


class TokenReview(KubeObject):
    """The API server's answer; its copy of the token is not read."""

    status: TokenReviewStatus = TokenReviewStatus()


class SubjectAccessReviewStatus(Value, frozen=True):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(KubeObject):
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class ConfigMap(KubeObject):
    data: dict[str, str] = {}


TOKEN_REVIEWS = ApiResource("authentication.k8s.io", "v1", "tokenreviews", False, TokenReview)
SUBJECT_ACCESS_REVIEWS = ApiResource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", False, SubjectAccessReview
)
CONFIG_MAPS = ApiResource("", "v1", "configmaps", True, ConfigMap)

AUTHENTICATION_NAMESPACE = "kube-system"
AUTHENTICATION_CONFIG_MAP = "extension-apiserver-authentication"
"""ConfigMap in which an API server publishes the CA bundles of clients."""


def token_review(token: str) -> dict[str, Any]:
    return {"apiVersion": TOKEN_REVIEWS.api_version, "kind": "TokenReview", "spec": {"token": token}}


def subject_access_review(user: User, path: str, verb: str) -> dict[str, Any]:
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "extra": user.extra,
        "nonResourceAttributes": {"path": path, "verb": verb},
    }
    return {
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": "SubjectAccessReview",
        "spec": {name: value for name, value in spec.items() if value},
    }
