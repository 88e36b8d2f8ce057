"""metrics.k8s.io of a cluster: usage by requests and annotations, for pods and nodes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from mooring.api.quantity import to_milli, to_value
from mooring.testing import make_pod
from mooring.testing.sandbox_cluster import SandboxCluster

lightkube: Any = pytest.importorskip("lightkube", reason="lightkube is not installed")
MEBIBYTE = 1024 * 1024


@pytest.mark.mooring_cluster(nodes=1, live=True)
def test_usage_follows_requests_and_annotations(mooring_cluster: SandboxCluster) -> None:
    generic: Any = import_module("lightkube.generic_resource")
    pod_metrics = generic.create_namespaced_resource("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")
    node_metrics = generic.create_global_resource("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes")
    requests = {"cpu": "400m", "memory": "100Mi"}
    mooring_cluster.apply(
        make_pod("idle", requests=requests, labels={"app": "idle"}),
        make_pod("busy", requests=requests, annotations={"mooring/cpu-usage": "150%"}),
        make_pod("large", annotations={"mooring/memory-usage": "1Gi", "mooring/cpu-usage": "much"}),
        make_pod("pending", requests={"cpu": "9999"}),
    )
    names = ("idle", "busy", "large")
    mooring_cluster.wait(lambda: all(mooring_cluster.pod(name).ready for name in names))

    config = lightkube.KubeConfig.from_file(mooring_cluster.kubeconfig)
    with lightkube.Client(config=config, namespace="default") as client:
        usage = {one.metadata.name: one["containers"][0]["usage"] for one in client.list(pod_metrics)}
        chosen = [one.metadata.name for one in client.list(pod_metrics, labels={"app": "idle"})]
        alone = client.get(pod_metrics, "busy")["containers"][0]["usage"]
        [node] = client.list(node_metrics)
        with pytest.raises(lightkube.ApiError, match='"pending" not found'):
            client.get(pod_metrics, "pending")

    assert {name: to_milli(one["cpu"]) for name, one in usage.items()} == {
        "idle": 200,
        "busy": 600,
        "large": 0,
    }
    assert {name: to_value(one["memory"]) // MEBIBYTE for name, one in usage.items()} == {
        "idle": 50,
        "busy": 50,
        "large": 1024,
    }
    assert chosen == ["idle"]
    assert alone == usage["busy"]
    assert (to_milli(node["usage"]["cpu"]), to_value(node["usage"]["memory"]) // MEBIBYTE) == (800, 1124)
