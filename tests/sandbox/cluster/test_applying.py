"""Manifests applied to a whole cluster."""

from __future__ import annotations

import json

import pytest

from mooring.sandbox.cluster.applying import ManifestError
from mooring.testing.sandbox_cluster import SandboxCluster

CONTAINERS = [{"name": "main", "image": "nginx"}]


def test_the_items_of_a_pod_list_need_no_kind(mooring_cluster: SandboxCluster) -> None:
    items = [{"metadata": {"name": name}, "spec": {"containers": CONTAINERS}} for name in ("a", "b")]
    manifest = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items})
    assert mooring_cluster.apply(manifest) == ["pod/a created", "pod/b created"]


def test_a_list_may_hold_lists(mooring_cluster: SandboxCluster) -> None:
    maps = {"kind": "ConfigMapList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}
    assert mooring_cluster.apply(json.dumps({"kind": "List", "items": [maps]})) == ["configmap/a created"]


def test_a_document_that_is_no_object_is_rejected(mooring_cluster: SandboxCluster) -> None:
    with pytest.raises(ManifestError, match='found "text", expected an object with apiVersion and kind'):
        mooring_cluster.apply("--- text\n")
