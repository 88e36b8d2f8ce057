"""Discovery: /api, /apis, and both in one (aggregated discovery)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from mooring.sandbox.apiserver.context.resource import GroupVersionKind, Registry, Resource
from mooring.sandbox.apiserver.objects import Tree, encode_json

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {None: 2, "beta": 1, "alpha": 0}

GROUP_PRIORITIES: Final = {
    "": 18000,
    "apiregistration.k8s.io": 17900,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
}
"""The groups of kube-apiserver, and how far ahead of others they come."""

_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which kube-apiserver names them."""


class Document(NamedTuple):
    """An encoded answer and its entity tag."""

    body: bytes
    etag: str


class RemoteVersion(NamedTuple):
    """A version of a group that another server serves. `resources` are the entries of its APIResourceList,
    None while it is not available."""

    group: str
    version: str
    group_priority: int
    version_priority: int
    resources: Sequence[Tree] | None


class Remotes(Protocol):
    """What other servers serve; `generation` counts the changes."""

    generation: int

    def __iter__(self) -> Iterator[RemoteVersion]: ...


class NoRemotes:
    """No other server serves anything."""

    generation = 0

    def __iter__(self) -> Iterator[RemoteVersion]:
        return iter(())


class Discovery:
    """Discovery documents, built on first request and kept until the registry changes, or what other servers
    serve."""

    def __init__(self, registry: Registry, remotes: Remotes | None = None) -> None:
        self._registry = registry
        self._remotes = remotes or NoRemotes()
        self._made: dict[str, Document | None] = {}
        self._generation = -1, -1

    def document(self, path: str, address: str, *, aggregated: bool = False) -> Document | None:
        """Return the document of /api, /apis, /api/v1, /apis/GROUP or /apis/GROUP/VERSION; None for other
        paths."""
        generation = self._registry.generation, self._remotes.generation
        if self._generation != generation:
            self._made.clear()
            self._generation = generation
        key = f"{path} {address} {aggregated}"
        if key not in self._made:
            tree = self._aggregated(path) if aggregated else self._tree(path, address)
            self._made[key] = None if tree is None else _encoded(tree)
        return self._made[key]

    def paths(self) -> list[str]:
        """Return the paths of all documents."""
        groups = {name: versions for name, versions in self._groups().items() if name}
        versioned = [f"/apis/{name}/{version}" for name, versions in groups.items() for version in versions]
        return ["/api", "/api/v1", "/apis", "/apis/", *(f"/apis/{name}" for name in groups), *versioned]

    def _tree(self, path: str, address: str) -> Tree | None:
        parts = path.strip("/").split("/")
        if parts == ["api"]:
            cidrs = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": cidrs}
        if parts == ["apis"]:
            groups = [_group(name, versions) for name, versions in self._groups().items() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if len(parts) == 2 and parts[0] == "apis":
            versions = self._groups().get(parts[1])
            return (
                None
                if versions is None
                else {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], versions)}
            )
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        if not self._registry.serves(group, version):
            return None
        return _resource_list(group, version, self._of(group, version))

    def _aggregated(self, path: str) -> Tree:
        core = path.strip("/") == "api"
        items = [
            self._group_discovery(name, versions)
            for name, versions in self._groups().items()
            if (name == "") == core
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }

    def _groups(self) -> dict[str, list[str]]:
        """Return the versions of each group, preferred ones first."""
        by_group: dict[str, dict[str, int]] = {}
        for resource in self._registry:
            by_group.setdefault(resource.group, {})[resource.version] = 0
        importance: dict[str, int] = {}
        for one in self._remotes:
            by_group.setdefault(one.group, {})[one.version] = one.version_priority
            importance[one.group] = max(one.group_priority, importance.get(one.group, 0))

        def order(group: str) -> tuple[int, str]:
            """Sort groups as kube-apiserver does: kubectl takes the first one that has a resource by a
            name."""
            return -GROUP_PRIORITIES.get(group, importance.get(group, 0)), group

        def rank(group: str, version: str) -> tuple[int, tuple[int, int, int]]:
            return by_group[group][version], version_priority(version)

        return {
            name: sorted(by_group[name], key=partial(rank, name), reverse=True)
            for name in sorted(by_group, key=order)
        }

    def _of(self, group: str, version: str) -> list[Resource]:
        served = (one for one in self._registry if (one.group, one.version) == (group, version))
        return sorted(served, key=lambda resource: resource.plural)

    def _group_discovery(self, name: str, versions: list[str]) -> Tree:
        remotes = {one.version: one.resources for one in self._remotes if one.group == name}
        served = [
            {
                "version": version,
                "resources": (
                    _aggregated_entries(name, version, remotes[version] or ())
                    if version in remotes
                    else [_aggregated_resource(one) for one in self._of(name, version)]
                ),
                "freshness": "Stale" if remotes.get(version, ()) is None else "Current",
            }
            for version in versions
        ]
        return {"metadata": {"name": name} if name else {}, "versions": served}


def _verbs(resource: Resource) -> list[str]:
    served = resource.verbs
    return [verb for verb in _CUSTOM_VERBS if verb in served] if resource.custom else [*served]


def _encoded(tree: Tree) -> Document:
    body = encode_json(tree)
    return Document(body, f'"{hashlib.sha256(body).hexdigest().upper()}"')


def version_priority(version: str) -> tuple[int, int, int]:
    """Sort key of versions: stable before beta before alpha, later before earlier."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (-1, 0, 0)
    major, stage, minor = match.groups()
    return (_STAGES[stage], int(major), int(minor or 0))


def _group(name: str, versions: list[str]) -> Tree:
    named = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": named, "preferredVersion": named[0]}


def _resource_list(group: str, version: str, resources: Iterable[Resource]) -> Tree:
    entries: list[Tree] = []
    for resource in resources:
        entries.append(_resource(resource))
        for sub in resource.subresources.values():
            entry: Tree = {
                "name": f"{resource.plural}/{sub.name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": sub.kind.kind,
                "verbs": list(sub.verbs),
            }
            if (sub.kind.group, sub.kind.version) != (group, version):
                entry |= {"group": sub.kind.group, "version": sub.kind.version}
            entries.append(entry)
    api_version = f"{group}/{version}" if group else version
    tree: Tree = {"kind": "APIResourceList", "groupVersion": api_version, "resources": entries}
    return {"kind": tree["kind"], "apiVersion": "v1", **tree} if group else tree


def _resource(resource: Resource) -> Tree:
    entry: Tree = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(resource),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if "list" in resource.verbs:
        digest = hashlib.sha256(f"{resource.group}/{resource.version}/{resource.kind}".encode()).digest()
        entry["storageVersionHash"] = base64.b64encode(digest[:8]).decode()
    return entry


def _aggregated_resource(resource: Resource) -> Tree:
    entry: Tree = {
        "resource": resource.plural,
        "responseKind": _kind(resource, resource.gvk),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {"subresource": sub.name, "responseKind": _kind(resource, sub.kind), "verbs": list(sub.verbs)}
            for sub in resource.subresources.values()
        ]
    return entry


def _aggregated_entries(group: str, version: str, entries: Iterable[Tree]) -> list[Tree]:
    """Return the entries of an APIResourceList in the form of aggregated discovery."""
    resources: dict[str, Tree] = {}
    parts: list[tuple[str, Tree]] = []
    for entry in entries:
        kind = {
            "group": entry.get("group") or group,
            "version": entry.get("version") or version,
            "kind": entry["kind"],
        }
        name, _, part = entry["name"].partition("/")
        if part:
            parts.append((name, {"subresource": part, "responseKind": kind, "verbs": entry["verbs"]}))
            continue
        resources[name] = {
            "resource": name,
            "responseKind": kind,
            "scope": "Namespaced" if entry["namespaced"] else "Cluster",
            "singularResource": entry.get("singularName", ""),
            "verbs": entry["verbs"],
            **{key: entry[key] for key in ("shortNames", "categories") if entry.get(key)},
        }
    for name, part in parts:
        if name in resources:
            resources[name].setdefault("subresources", []).append(part)
    return list(resources.values())


def _kind(resource: Resource, kind: GroupVersionKind) -> Tree:
    """Return the kind of responses; group and version of a built-in kind are empty if they are those of the
    resource."""
    if not resource.custom and (kind.group, kind.version) == (resource.group, resource.version):
        return {"group": "", "version": "", "kind": kind.kind}
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}
