"""Discovery names groups, kinds and verbs as kube-apiserver does."""

from __future__ import annotations

import json

from mooring.sandbox.apiserver.discovery import Discovery
from tests.sandbox.apiserver.kit import Direct

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ships.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "ships", "kind": "Ship"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {"status": {}},
            }
        ],
    },
}


def test_groups_are_in_the_order_of_their_priorities(direct: Direct) -> None:
    direct.tree("create", "customresourcedefinitions", "", DEFINITION, group="apiextensions.k8s.io")
    document = Discovery(direct.api.registry).document("/apis", "", aggregated=True)
    assert document is not None
    items = json.loads(document.body)["items"]
    names = [one["metadata"]["name"] for one in items]
    assert names[:3] == ["apiregistration.k8s.io", "apps", "events.k8s.io"]
    assert names[-2:] == ["flowcontrol.apiserver.k8s.io", "example.com"]
    (ships,) = items[-1]["versions"][0]["resources"]
    kind = {"group": "example.com", "version": "v1", "kind": "Ship"}
    assert (ships["responseKind"], ships["subresources"][0]["responseKind"]) == (kind, kind)
    assert ships["verbs"][:2] == ["delete", "deletecollection"]


def test_component_statuses_are_not_watched(direct: Direct) -> None:
    document = Discovery(direct.api.registry).document("/api/v1", "")
    assert document is not None
    verbs = {one["name"]: one["verbs"] for one in json.loads(document.body)["resources"]}
    assert verbs["componentstatuses"] == ["get", "list"]
