"""Bearer tokens: the administrator's, and those issued for service accounts."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mooring.sandbox.apiserver.authorization.users import ADMIN, User, service_account
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.objects import Tree, dig, encode_json

_EXTRA: Final = "authentication.kubernetes.io"
AUDIENCE: Final = "https://kubernetes.default.svc.cluster.local"
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
BOUND_TO: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
"""Kinds of objects that a token can be bound to, and their tables."""


def user_of(api: Api, token: str) -> User | None:
    """Return the user of a valid token, else None."""
    if hmac.compare_digest(token.encode("utf-8", "replace"), api.token.encode()):
        return ADMIN
    claims = _claims(api, token)
    if claims is None or not _holds(api, claims):
        return None
    about = claims["kubernetes.io"]
    user = service_account(about["namespace"], about["serviceaccount"]["name"])
    return user._replace(uid=about["serviceaccount"]["uid"], extra=tuple(_extra(claims)))


def _extra(claims: Tree) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what else a token says: by which it is known, and for which pod and node it was issued."""
    about = claims["kubernetes.io"]
    yield f"{_EXTRA}/credential-id", (f"JTI={claims['jti']}",)
    for kind in ("node", "pod"):
        if kind in about:
            yield f"{_EXTRA}/{kind}-name", (about[kind]["name"],)
            if about[kind].get("uid"):
                yield f"{_EXTRA}/{kind}-uid", (about[kind]["uid"],)


def issue(api: Api, account: Tree, spec: Tree, bound: tuple[str, Tree] | None) -> str:
    """Issue a token for a service account, with the audiences and the lifetime of a TokenRequest's spec.
    `bound` is the kind and the object whose deletion invalidates it."""
    now, metadata = int(api.clock()), account["metadata"]
    about: Tree = {
        "namespace": metadata["namespace"],
        "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
    }
    if bound is not None:
        kind, obj = bound
        about[kind.lower()] = {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
        if kind == "Pod" and (name := obj["spec"].get("nodeName")):
            uid = _uid(api, "nodes", name, "")
            about["node"] = {"name": name, **({"uid": uid} if uid else {})}
    claims = {
        "aud": spec["audiences"],
        "exp": now + spec["expirationSeconds"],
        "iat": now,
        "iss": AUDIENCE,
        "jti": api.new_uid(),
        "kubernetes.io": about,
        "nbf": now,
        "sub": service_account(metadata["namespace"], metadata["name"]).name,
    }
    signed = f"{_encoded(encode_json(_HEADER))}.{_encoded(encode_json(claims))}"
    return f"{signed}.{_signature(api, signed)}"


def issue_for_pod(api: Api, namespace: str, name: str, audience: str, seconds: int) -> str | None:
    """Issue a token for the account of a pod, bound to the pod; None if one of them does not exist."""
    pod = api.read("pods", name, namespace)
    if pod is None:
        return None
    account = api.read("serviceaccounts", pod["spec"].get("serviceAccountName") or "default", namespace)
    if account is None:
        return None
    spec = {"audiences": [audience or AUDIENCE], "expirationSeconds": seconds}
    return issue(api, account, spec, ("Pod", pod))


def _claims(api: Api, token: str) -> Tree | None:
    """Return the claims of a token that we signed, else None."""
    signed, _, signature = token.rpartition(".")
    if not hmac.compare_digest(signature.encode("utf-8", "replace"), _signature(api, signed).encode()):
        return None
    part = signed.partition(".")[2]
    claims: Tree = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


def _holds(api: Api, claims: Tree) -> bool:
    """Whether a token is for this server and not expired, and the objects it is bound to still exist."""
    if AUDIENCE not in claims["aud"] or not claims["nbf"] <= api.clock() < claims["exp"]:
        return False
    about = claims["kubernetes.io"]
    named = [("serviceaccounts", about["serviceaccount"])]
    bound = (kind.lower() for kind in BOUND_TO if kind != "Node" or "pod" not in about)
    named += [(f"{kind}s", about[kind]) for kind in bound if kind in about]
    return all(_uid(api, table, one["name"], about["namespace"]) == one["uid"] for table, one in named)


def _uid(api: Api, table: str, name: str, namespace: str) -> Any:
    return dig(api.read(table, name, "" if table == "nodes" else namespace) or {}, "metadata", "uid")


def _signature(api: Api, text: str) -> str:
    """Sign with the administrator's token: its holder may do everything anyway."""
    return _encoded(hmac.digest(api.token.encode(), text.encode("utf-8", "replace"), hashlib.sha256))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
