"""`sample-apiserver`: the example of an extension API server, which serves Flunders and Fischers."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.api.times import format_time
from mooring.sandbox.network.messages import Query, Reply
from mooring.sandbox.programs.errors import ForeverError, UnknownProgramError
from mooring.sandbox.programs.listeners import Listener, Process, text

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell

Tree = dict[str, Any]
Objects = dict[tuple[str, str], Tree]
"""By namespace and name."""

IMAGE: Final = "sample-apiserver"
_PORT: Final = 443
_GROUP: Final = "wardle.example.com"
_KINDS: Final = {
    "v1alpha1": {"fischers": ("Fischer", False), "flunders": ("Flunder", True)},
    "v1beta1": {"flunders": ("Flunder", True)},
}
"""By version and plural: the kind, and whether it is in a namespace."""
_VERBS: Final = ("create", "delete", "get", "list", "update")
_MEDIA: Final = "application/json"
_JSON: Final = {"content-type": _MEDIA}
_HEALTH: Final = frozenset(("/healthz", "/livez", "/readyz"))
_MOST: Final = 1000  # objects


def run(shell: Shell, words: list[str]) -> int:
    """Listen at the secure port. Raises UnknownProgramError."""
    flags = dict(word.lstrip("-").partition("=")[::2] for word in words)
    port = flags.get("secure-port", str(_PORT))
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536):
        raise UnknownProgramError(IMAGE)
    shell.listeners.append(Listener(int(port), _SampleServer(), is_secure=True))
    raise ForeverError


class _SampleServer(msgspec.Struct, frozen=True):
    """Answers for users that a front proxy has authenticated."""

    def __call__(self, query: Query, process: Process) -> Reply:
        if query.path in _HEALTH:
            return text("ok")
        if "x-remote-user" not in query.headers:
            return _status(401, "Unauthorized", "Unauthorized")
        parts = [part for part in query.path.split("/") if part]
        if parts[:2] == ["openapi", "v3"]:
            return _openapi(parts[2:])
        if parts[:2] != ["apis", _GROUP] or len(parts) < 3 or parts[2] not in _KINDS:
            return text("404 page not found\n", 404)
        version, rest = parts[2], parts[3:]
        return _discovery(version) if not rest else _answer(query, process, version, rest)


def _discovery(version: str) -> Reply:
    resources = [
        {
            "name": plural,
            "singularName": kind.lower(),
            "namespaced": namespaced,
            "kind": kind,
            "verbs": _VERBS,
        }
        for plural, (kind, namespaced) in _KINDS[version].items()
    ]
    tree = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{_GROUP}/{version}"}
    return _send(200, {**tree, "resources": resources})


def _openapi(parts: list[str]) -> Reply:
    """Return the index of OpenAPI documents, or one that describes the objects of a version."""
    paths = {f"apis/{_GROUP}/{version}": version for version in _KINDS}
    if not parts:
        return _send(200, {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}})
    version = paths.get("/".join(parts), "")
    if not version:
        return text("404 page not found\n", 404)
    schemas = {
        f"com.example.wardle.{version}.{kind}": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("apiVersion", "kind")}
            | {name: {"type": "object"} for name in ("metadata", "spec", "status")},
            "x-kubernetes-group-version-kind": [{"group": _GROUP, "kind": kind, "version": version}],
        }
        for kind, _ in _KINDS[version].values()
    }
    info = {"title": IMAGE, "version": "v0"}
    return _send(200, {"openapi": "3.0.0", "info": info, "paths": {}, "components": {"schemas": schemas}})


def _answer(query: Query, process: Process, version: str, rest: list[str]) -> Reply:
    """Answer a request for objects."""
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name = rest[0], rest[1] if len(rest) > 1 else ""
    kind, namespaced = _KINDS[version].get(plural, ("", False))
    if not kind or len(rest) > 2 or (namespace and not namespaced):
        return _status(404, "NotFound", "the server could not find the requested resource")
    if query.method in ("POST", "PUT") and not query.headers.get("content-type", _MEDIA).startswith(_MEDIA):
        why = f"the body of the request was in an unknown format - accepted media types include: {_MEDIA}"
        return _status(415, "UnsupportedMediaType", why)
    objects = process.state.setdefault(plural, {})
    if query.param("dryRun"):
        objects = dict(objects)
    if name:
        return _answer_one(query, process, objects, (namespace, name), version, plural)
    if query.method == "POST" and bool(namespace) == namespaced:
        return _create(query, process, objects, kind, version, namespace)
    if query.method not in ("GET", "HEAD"):
        return _NOT_ALLOWED
    found = [one for (place, _), one in sorted(objects.items()) if namespace in ("", place)]
    items = [_in_version(one, version) for one in found]
    metadata = {"resourceVersion": str(process.state.get("version", 1))}
    return _send(200, {"kind": f"{kind}List", **_api(version), "metadata": metadata, "items": items})


def _answer_one(
    query: Query, process: Process, objects: Objects, key: tuple[str, str], version: str, plural: str
) -> Reply:
    """Answer a request for one object."""
    if key not in objects:
        return _status(404, "NotFound", f'{plural}.{_GROUP} "{key[1]}" not found')
    if query.method == "PUT":
        return _update(query, process, objects, key, version)
    if query.method == "DELETE":
        del objects[key]
        return _status(200, "", "", status="Success")
    return _send(200, _in_version(objects[key], version)) if query.method in ("GET", "HEAD") else _NOT_ALLOWED


def _create(
    query: Query,
    process: Process,
    objects: Objects,
    kind: str,
    version: str,
    namespace: str,
) -> Reply:
    body = _read(query)
    metadata = dict((body or {}).get("metadata") or {})
    name = metadata.get("name")
    if body is None or not name or len(objects) >= _MOST:
        return _status(400, "BadRequest", "the object provided is invalid")
    if (namespace, name) in objects:
        return _status(409, "AlreadyExists", f'{kind.lower()}s.{_GROUP} "{name}" already exists')
    metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": format_time(process.now)}
    metadata |= {"namespace": namespace} if namespace else {}
    stored = {**body, "kind": kind, "metadata": {**metadata, "resourceVersion": _next_version(process)}}
    objects[namespace, name] = stored
    return _send(201, _in_version(stored, version))


def _update(
    query: Query,
    process: Process,
    objects: Objects,
    key: tuple[str, str],
    version: str,
) -> Reply:
    body, before = _read(query), objects[key]
    if body is None:
        return _status(400, "BadRequest", "the object provided is invalid")
    kept = {name: before["metadata"][name] for name in ("uid", "creationTimestamp", "name")}
    metadata = {**(body.get("metadata") or {}), **kept, "resourceVersion": _next_version(process)}
    objects[key] = {**body, "kind": before["kind"], "metadata": metadata}
    return _send(200, _in_version(objects[key], version))


def _read(query: Query) -> Tree | None:
    try:
        body: Any = msgspec.json.decode(query.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return body if isinstance(body, dict) and isinstance(body.get("metadata", {}), dict) else None


def _next_version(process: Process) -> str:
    process.state["version"] = process.state.get("version", 1) + 1
    return str(process.state["version"])


def _api(version: str) -> Tree:
    return {"apiVersion": f"{_GROUP}/{version}"}


def _in_version(stored: Tree, version: str) -> Tree:
    return {**stored, **_api(version)}


def _status(code: int, reason: str, message: str, status: str = "Failure") -> Reply:
    tree: Tree = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status}
    if status == "Failure":
        tree |= {"message": message, "reason": reason, "code": code}
    return _send(code, tree)


def _send(code: int, tree: Tree) -> Reply:
    return Reply(code, msgspec.json.encode(tree), _JSON)


_NOT_ALLOWED: Final = _status(
    405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
)
