"""Tests are written once for both kinds of cluster: the scheduler alone, and the whole sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.testing import Cluster, make_cluster, make_node, make_pod
from mooring.testing.sandbox_cluster import SandboxCluster

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: main, image: nginx, resources: {requests: {cpu: "1"}}}]
"""


@pytest.fixture(params=[make_cluster, SandboxCluster], ids=["scheduler", "sandbox"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    make: Callable[..., Cluster] = request.param
    with make([make_node("a"), make_node("b", unschedulable=True)]) as cluster:
        yield cluster


def test_a_manifest_is_applied_scheduled_and_deleted(cluster: Cluster) -> None:
    [outcome] = cluster.apply(MANIFEST)
    assert outcome.endswith("/web created")
    cluster.wait_scheduled("web")
    assert cluster.node_of("web") == cluster.pod("default/web").spec.node_name == "a"
    assert [pod.name for pod in cluster.pods("app=web")] == ["web"]
    assert not cluster.pods("app=db")
    assert not cluster.pods(namespace="other")
    assert cluster.get("pod/web")["spec"]["nodeName"] == "a"
    cluster.delete("pod/web")
    cluster.advance(60)  # where there is a kubelet, the pod has a grace period
    with pytest.raises(LookupError, match="web does not exist"):
        cluster.get("pod/web")


@pytest.mark.parametrize("form", ["text", "file", "dictionary", "object"])
def test_forms_of_manifests(cluster: Cluster, form: str, tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("{apiVersion: v1, kind: Node, metadata: {name: c}}")
    forms: dict[str, Any] = {
        "text": file.read_text(),
        "file": str(file),
        "dictionary": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}},
        "object": make_node("c"),
    }
    cluster.apply(forms[form])
    assert cluster.get("node/c")["metadata"]["name"] == "c"


def test_events_decisions_and_explanations(cluster: Cluster) -> None:
    cluster.apply(make_pod("large", requests={"cpu": "100"}))
    cluster.schedule()
    assert [(event.type, event.reason) for event in cluster.events("pod/large")] == [
        ("Warning", "FailedScheduling")
    ]
    assert cluster.events("pod/other") == []
    assert cluster.decision("large") is cluster.attempts("large")[-1] is cluster.decisions[-1]
    assert "Insufficient cpu" in cluster.explain("large")
    with pytest.raises(
        AssertionError, match=r"1 pod is pending after 5 s\ndefault/large:[\s\S]*Insufficient cpu"
    ):
        cluster.wait_scheduled(timeout=5)


def test_time_passes_only_when_told_to(cluster: Cluster) -> None:
    start = cluster.now()
    cluster.apply(make_pod())
    assert cluster.now() == start
    [decision] = cluster.advance(10)
    assert decision.node == "a"
    assert cluster.now() == pytest.approx(start + 10)


def test_a_condition_that_does_not_come_true(cluster: Cluster) -> None:
    cluster.wait(lambda: True)
    with pytest.raises(AssertionError, match="miracle: timed out after 2 s"):
        cluster.wait(lambda: False, timeout=2, what="miracle")


def test_kinds_that_need_controllers_are_refused_without_them() -> None:
    deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}"
    with pytest.raises(ValueError, match=r"Deployment .*web: the scheduler does not read this kind\nhint:"):
        make_cluster().apply(deployment)
