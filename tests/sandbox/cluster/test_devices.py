"""Pods with devices from the Deployment to the fake driver, on a whole cluster in virtual time."""

from __future__ import annotations

import json

import pytest

from mooring.sandbox.kubelet.nodes_file import read_nodes
from mooring.testing.sandbox_cluster import SandboxCluster

NODES = read_nodes(
    "- {name: gpu, count: 2, devices: [{driver: gpu.example.com, name: gpu, count: 2}]}", "gpus.yaml"
)
TRAIN = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel: {expression: device.driver == "gpu.example.com"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec:
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  replicas: 3
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      containers: [{name: main, image: train, resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
"""


def used_devices(cluster: SandboxCluster) -> list[str]:
    allocations = [claim["status"].get("allocation", {}) for claim in cluster.list("resourceclaims")]
    results = [result for each in allocations for result in each.get("devices", {}).get("results", ())]
    return sorted(f"{result['pool']}/{result['device']}" for result in results)


def ready(cluster: SandboxCluster) -> int:
    return sum(pod.ready for pod in cluster.pods("app=train"))


@pytest.mark.mooring_cluster(nodes=NODES)
def test_pods_get_devices_and_give_them_back(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(TRAIN)
    mooring_cluster.wait(lambda: ready(mooring_cluster) == 3)
    assert len(set(used_devices(mooring_cluster))) == 3
    mooring_cluster.scale("deployment/train", 5)
    mooring_cluster.advance(10)
    assert ready(mooring_cluster) == 4
    assert used_devices(mooring_cluster) == ["gpu-1/gpu-0", "gpu-1/gpu-1", "gpu-2/gpu-0", "gpu-2/gpu-1"]
    mooring_cluster.scale("deployment/train", 1)
    mooring_cluster.wait(lambda: len(mooring_cluster.list("resourceclaims")) == 1)
    assert len(used_devices(mooring_cluster)) == 1
    mooring_cluster.delete("deployment/train")
    mooring_cluster.wait(lambda: not mooring_cluster.list("resourceclaims"))


@pytest.mark.mooring_cluster(nodes=NODES)
def test_failed_and_tainted_devices_are_not_used(mooring_cluster: SandboxCluster) -> None:
    failed = {"mooring/failed-devices": "gpu.example.com/gpu-0,gpu.example.com/gpu-1"}
    mooring_cluster.patch("node/gpu-1", {"metadata": {"annotations": failed}})
    taint = json.dumps({"gpu.example.com/gpu-1": [{"key": "hot", "effect": "NoSchedule"}]})
    mooring_cluster.patch("node/gpu-2", {"metadata": {"annotations": {"mooring/device-taints": taint}}})
    mooring_cluster.advance(1)
    mooring_cluster.apply(TRAIN)
    mooring_cluster.advance(10)
    assert used_devices(mooring_cluster) == ["gpu-2/gpu-0"]
    mooring_cluster.patch("node/gpu-1", {"metadata": {"annotations": {"mooring/failed-devices": None}}})
    mooring_cluster.wait(lambda: ready(mooring_cluster) == 3)
    assert used_devices(mooring_cluster) == ["gpu-1/gpu-0", "gpu-1/gpu-1", "gpu-2/gpu-0"]


@pytest.mark.mooring_cluster(nodes=NODES)
def test_a_taint_evicts_the_pod_and_another_device_is_used(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(TRAIN.replace("replicas: 3", "replicas: 1"))
    mooring_cluster.wait(lambda: ready(mooring_cluster) == 1)
    [before] = used_devices(mooring_cluster)
    node, _, device = before.partition("/")
    taint = json.dumps({f"gpu.example.com/{device}": [{"key": "broken", "effect": "NoExecute"}]})
    mooring_cluster.patch(f"node/{node}", {"metadata": {"annotations": {"mooring/device-taints": taint}}})
    mooring_cluster.wait(lambda: used_devices(mooring_cluster) not in ([], [before]))
    mooring_cluster.wait(lambda: ready(mooring_cluster) == 1)
    assert len(used_devices(mooring_cluster)) == 1


def reason(cluster: SandboxCluster) -> str:
    """Why the only pod is not scheduled."""
    [pod] = cluster.pods("app=train")
    return next(one.message for one in pod.status.conditions if one.type == "PodScheduled")


@pytest.mark.mooring_cluster(nodes=NODES)
def test_a_class_that_is_deleted_in_between_is_waited_for(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(TRAIN.replace("replicas: 3", "replicas: 0"))
    mooring_cluster.delete("deviceclass/gpu")
    mooring_cluster.scale("deployment/train", 1)
    mooring_cluster.advance(5)
    assert "request gpu: device class gpu does not exist" in reason(mooring_cluster)
    mooring_cluster.apply(TRAIN.partition("---")[0])
    mooring_cluster.wait(lambda: ready(mooring_cluster) == 1)


@pytest.mark.mooring_cluster(nodes=NODES)
def test_slices_go_with_their_node(mooring_cluster: SandboxCluster) -> None:
    assert len(mooring_cluster.list("resourceslices")) == 2
    mooring_cluster.delete("node/gpu-1")
    mooring_cluster.advance(60)
    [remaining] = mooring_cluster.list("resourceslices")
    assert remaining["spec"]["nodeName"] == "gpu-2"
