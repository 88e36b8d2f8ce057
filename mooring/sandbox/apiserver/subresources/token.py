"""token: issue a token for a service account."""

from __future__ import annotations

from typing import Final

from mooring.api.times import format_time
from mooring.sandbox.apiserver.accounts import AUDIENCE, BOUND_TO, issue
from mooring.sandbox.apiserver.errors import Cause, bad_request, conflict, invalid, invalid_value, not_found
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.verbs.body import read_object
from mooring.sandbox.apiserver.verbs.request import Answer, Request, TreeAnswer

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_BY_DEFAULT: Final = 3600
_SHORTEST, _LONGEST = 600, 1 << 32


def request_token(request: Request) -> Answer:
    """POST …/serviceaccounts/NAME/token."""
    write = request.write("CREATE")
    subresource = request.subresource
    assert subresource is not None
    sent = read_object(write, request.body, request.content_type, subresource.codec, subresource.kind)
    metadata = sent.setdefault("metadata", {})
    for field, expected in (("name", request.name), ("namespace", request.namespace)):
        if metadata.get(field) not in (None, "", expected):
            why = f"must match the service account {field} if specified"
            _refuse(request.name, invalid_value(f"metadata.{field}", metadata[field], why))
    account = request.api.read("serviceaccounts", request.name, request.namespace)
    if account is None:
        raise not_found("", "serviceaccounts", request.name)
    uid = account["metadata"]["uid"]
    if metadata.get("uid") not in (None, "", uid):
        sent_uid = f"the UID in the token request ({metadata['uid']})"
        why = f"{sent_uid} does not match the UID of the service account ({uid})"
        raise conflict(_GROUP, _KIND, request.name, why)
    spec = _settled(sent.get("spec") or {})
    token = issue(request.api, account, spec, _bound(request, spec))
    now = request.api.now()
    ends = format_time(int(request.api.clock()) + spec["expirationSeconds"])
    identity = {"name": request.name, "namespace": request.namespace, "uid": uid, "creationTimestamp": now}
    status = {"token": token, "expirationTimestamp": ends}
    return TreeAnswer({**sent, "metadata": {**metadata, **identity}, "spec": spec, "status": status}, 201)


def _refuse(name: str, cause: Cause) -> None:
    raise invalid(_GROUP, _KIND, name, [cause])


def _settled(spec: Tree) -> Tree:
    seconds = spec.get("expirationSeconds") or _BY_DEFAULT
    for wrong, limit in (
        (seconds < _SHORTEST, "less than 10 minutes"),
        (seconds > _LONGEST, "larger than 2^32 seconds"),
    ):
        if wrong:
            _refuse(
                "", invalid_value("spec.expirationSeconds", seconds, f"may not specify a duration {limit}")
            )
    return {**spec, "audiences": spec.get("audiences") or [AUDIENCE], "expirationSeconds": seconds}


def _bound(request: Request, spec: Tree) -> tuple[str, Tree] | None:
    """Return the object that the token is bound to."""
    reference = spec.get("boundObjectRef")
    if not reference:
        return None
    kind, name = reference.get("kind", ""), reference.get("name", "")
    table = BOUND_TO.get(kind) if reference.get("apiVersion", "v1") == "v1" else None
    if table is None:
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    obj = request.api.read(table, name, "" if kind == "Node" else request.namespace)
    if obj is None:
        raise not_found("", table, name)
    if kind == "Pod" and obj["spec"].get("serviceAccountName") != request.name:
        account = f'cannot bind token for serviceaccount "{request.name}"'
        raise bad_request(f"{account} to pod running with different serviceaccount name.")
    if reference.get("uid") not in (None, "", obj["metadata"]["uid"]):
        why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record"
        raise conflict("", kind, name, f"{why}. The object might have been deleted and then recreated")
    return kind, obj
