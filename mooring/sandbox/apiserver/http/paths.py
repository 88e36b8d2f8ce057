"""Find the objects that a path of the API names."""

from __future__ import annotations

from typing import NamedTuple

from mooring.sandbox.apiserver.context.resource import Registry, Resource, Subresource
from mooring.sandbox.apiserver.errors import method_not_allowed, no_such_resource


class Target(NamedTuple):
    """The target of a path: all objects of a resource, those of a namespace, one, or a subresource. `path` is
    what follows the subresource `proxy`."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: Subresource | None = None
    path: str = ""


def names_objects(path: str) -> bool:
    """Return whether a path is below a version of the API; those above are for discovery."""
    if not path.startswith(("/api/", "/apis/")):
        return False
    depth = len([part for part in path.split("/") if part])
    return depth > (2 if path.startswith("/api/") else 3)


def find_target(registry: Registry, path: str) -> Target | None:
    """Return the target of a path below /api/v1 or /apis/GROUP/VERSION; None if the version is not served.

    Raises 404 if the version has no such resource.
    """
    parts = path.split("/")[1:]
    if parts[-1] == "":
        parts.pop()
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    else:
        group, version, rest = parts[1], parts[2], parts[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0])
    if resource is None:
        if registry.serves(group, version):
            raise no_such_resource()
        return None
    path = ""
    if rest[2:3] == ["proxy"]:
        path, rest = "/".join(rest[3:]), rest[:3]
    if len(rest) > 3 or "" in rest or (namespace and not resource.namespaced):
        raise no_such_resource()
    name = rest[1] if len(rest) > 1 else ""
    if name and resource.namespaced and not namespace:
        raise no_such_resource()
    if len(rest) < 3:
        return Target(resource, namespace, name)
    subresource = resource.subresources.get(rest[2])
    if subresource is None:
        raise no_such_resource()
    return Target(resource, namespace, name, subresource, path)


_ON_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ON_ALL = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


def verb_of(method: str, target: Target, watch: bool) -> str:
    """Return the verb of a method on a target. Raises 405."""
    if method == "HEAD":
        method = "GET"
    if target.subresource is not None:
        verb = {**_ON_ONE, "POST": "create"}.get(method)
        if method == "OPTIONS" and target.subresource.name == "proxy":
            verb = "options"
    elif target.name:
        verb = _ON_ONE.get(method)
    else:
        verb = _ON_ALL.get(method)
        if verb == "create" and target.resource.namespaced and not target.namespace:
            verb = None
    if verb is None:
        raise method_not_allowed()
    return "watch" if watch and verb in ("get", "list") and target.subresource is None else verb
