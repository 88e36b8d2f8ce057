"""Manifests applied to a whole cluster."""

from __future__ import annotations

import json

import pytest
from mooring.testing.whole_cluster import WholeCluster

from mooring.sandbox.cluster.applying import ManifestError

CONTAINERS = [{"name": "main", "image": "nginx"}]


def test_the_items_of_a_pod_list_need_no_kind(cluster: WholeCluster) -> None:
    items = [{"metadata": {"name": name}, "spec": {"containers": CONTAINERS}} for name in ("a", "b")]
    manifest = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items})
    assert cluster.apply(manifest) == ["pods/a created", "pods/b created"]


def test_a_list_may_hold_lists(cluster: WholeCluster) -> None:
    maps = {"kind": "ConfigMapList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}
    assert cluster.apply(json.dumps({"kind": "List", "items": [maps]})) == ["configmaps/a created"]


def test_a_document_that_is_no_object_is_rejected(cluster: WholeCluster) -> None:
    with pytest.raises(ManifestError, match='found "text", expected an object with apiVersion and kind'):
        cluster.apply("--- text\n")
