"""What Mooring does with an API server, as the rules of RBAC say it: no more may be granted, and no less."""

from __future__ import annotations

from typing import NamedTuple

from mooring.api.kinds import WATCHED


class Permission(NamedTuple):
    verb: str
    group: str
    resource: str  # with its subresource: "pods/binding"


def _all(group: str, resource: str, *verbs: str) -> frozenset[Permission]:
    return frozenset(Permission(verb, group, resource) for verb in verbs)


SCHEDULING: frozenset[Permission] = frozenset().union(
    *(_all(kind.group, kind.plural, "list", "watch") for kind in WATCHED),
    _all("", "pods", "get", "delete"),
    _all("", "pods/binding", "create"),
    _all("", "pods/status", "patch"),
    _all("events.k8s.io", "events", "create", "patch"),
    _all("resource.k8s.io", "resourceclaims", "get", "create", "patch", "delete"),
    _all("resource.k8s.io", "resourceclaims/status", "patch"),
    _all("resource.k8s.io", "resourceclaims/binding", "patch"),
)
POD_GROUPS: frozenset[Permission] = frozenset().union(
    _all("scheduling.k8s.io", "podgroups", "list", "watch"),
    _all("scheduling.k8s.io", "workloads", "list", "watch"),
    _all("scheduling.k8s.io", "podgroups/status", "patch"),
    _all("scheduling.x-k8s.io", "podgroups", "list", "watch"),
)
VOLUME_BINDING = _all("", "persistentvolumes", "patch") | _all("", "persistentvolumeclaims", "patch")
ENDPOINTS = _all("authentication.k8s.io", "tokenreviews", "create") | _all(
    "authorization.k8s.io", "subjectaccessreviews", "create"
)
LEASE = _all("coordination.k8s.io", "leases", "get", "update")  # of the one lease, by its name
NEW_LEASE = _all("coordination.k8s.io", "leases", "create")

CLUSTER_WIDE = SCHEDULING | POD_GROUPS | VOLUME_BINDING | ENDPOINTS

FORBIDDEN = frozenset(
    Permission(verb, group, resource)
    for verb, group, resource in (
        ("get", "", "secrets"),
        ("list", "", "secrets"),
        ("list", "", "configmaps"),
        ("create", "", "pods"),
        ("patch", "", "pods"),
        ("update", "", "pods"),
        ("update", "", "pods/status"),
        ("deletecollection", "", "pods"),
        ("create", "", "pods/exec"),
        ("create", "", "pods/eviction"),
        ("patch", "", "nodes"),
        ("patch", "", "nodes/status"),
        ("delete", "", "nodes"),
        ("create", "", "serviceaccounts/token"),
        ("delete", "", "persistentvolumes"),
        ("delete", "", "persistentvolumeclaims"),
        ("delete", "events.k8s.io", "events"),
        ("update", "apps", "replicasets"),
        ("list", "coordination.k8s.io", "leases"),
        ("bind", "rbac.authorization.k8s.io", "clusterroles"),
        ("impersonate", "", "users"),
    )
)
"""Neighbours of what is granted, and what an intruder would look for."""
