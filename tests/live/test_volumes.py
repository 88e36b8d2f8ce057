"""Volumes that are bound once their pod's node is known, together with the controller that binds them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import TestCluster
from tests.live.control_plane import ControlPlane
from tests.live.replica import Replica, configuration, wait_for
from tests.live.scene import LABEL, Scene

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
SCHEDULER = "mooring-volumes"


@pytest.fixture(scope="module", autouse=True)
def controller(request: pytest.FixtureRequest) -> Iterator[None]:
    """A cluster that somebody else runs has the controller already."""
    if os.environ.get("MOORING_TEST_KUBECONFIG"):
        yield
        return
    plane: ControlPlane = request.getfixturevalue("control_plane")
    if not plane.has("kube-controller-manager"):
        pytest.skip("needs kube-controller-manager: put it beside kube-apiserver in KUBEBUILDER_ASSETS")
    plane.start_controller_manager("persistentvolume-binder-controller")
    yield
    plane.stop_controller_manager()


@pytest.fixture(scope="module")
def scheduler(cluster: TestCluster, kubeconfig: Path) -> Iterator[Replica]:
    """One with little patience for volumes."""
    config = configuration(kubeconfig, SCHEDULER)
    args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "VolumeBindingArgs"}
    plugin = {"name": "VolumeBinding", "args": {**args, "bindTimeoutSeconds": 3}}
    config["profiles"][0]["pluginConfig"] = [plugin]
    with Replica(cluster.folder, config) as replica:
        yield replica.ready()
        assert replica.end() == 0, replica.log


@pytest.fixture
def storage(scene: Scene, scheduler: Replica) -> Scene:
    scene.scheduler_name = SCHEDULER
    return scene


def a_class(scene: Scene, provisioner: str = "kubernetes.io/no-provisioner") -> str:
    body = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    scene.create(CLASSES, {"metadata": {"name": scene.namespace}, **body})
    return scene.namespace


def a_volume(scene: Scene, name: str, node: str) -> str:
    full = f"{scene.namespace}-{name}"
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": scene.namespace,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    scene.create(VOLUMES, {"metadata": {"name": full, "labels": {LABEL: scene.namespace}}, "spec": spec})
    return full


def a_claim(scene: Scene, name: str) -> str:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": scene.namespace,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    path = claims(scene)
    scene.create(path, {"metadata": {"name": name}, "spec": spec})
    return f"{path}/{name}"


def claims(scene: Scene) -> str:
    return f"/api/v1/namespaces/{scene.namespace}/persistentvolumeclaims"


def with_claim(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def test_a_local_volume_decides_the_node_and_is_bound_before_the_pod(storage: Scene) -> None:
    for name in "abc":
        storage.node(name)
    node = storage.node("with-disk")
    a_class(storage)
    volume = a_volume(storage, "disk", node)
    claim = a_claim(storage, "data")
    storage.pod("database", **with_claim("data"))
    assert storage.bound("database") == [node]
    found = storage.api.get(claim)
    assert (found["spec"]["volumeName"], found["status"]["phase"]) == (volume, "Bound")
    assert storage.api.get(f"{VOLUMES}/{volume}")["spec"]["claimRef"]["name"] == "data"


def test_without_a_volume_the_pod_waits_for_one(storage: Scene) -> None:
    node = storage.node("a")
    a_class(storage)
    a_claim(storage, "data")
    storage.pod("database", **with_claim("data"))
    condition = storage.refused("database", "available persistent volumes to bind")
    assert condition["reason"] == "Unschedulable"
    a_volume(storage, "late", node)
    assert storage.bound("database") == [node]


def test_a_claim_that_nobody_provisions_times_out_and_holds_up_nobody(storage: Scene) -> None:
    node = storage.node("a", pods="2")
    a_class(storage, "example.com/nobody")
    claim = a_claim(storage, "data")
    storage.pod("database", **with_claim("data"))
    selected = "volume.kubernetes.io/selected-node"
    wait_for(
        lambda: storage.api.get(claim)["metadata"].get("annotations", {}).get(selected), "a node is asked"
    )
    assert storage.api.get(claim)["metadata"]["annotations"][selected] == node
    storage.pod("other")
    assert storage.bound("other") == [node]
    condition = storage.refused("database", "binding volumes: context deadline exceeded")
    assert condition["reason"] == "SchedulerError"
    event = storage.event("database", "FailedScheduling")
    assert event["note"].startswith('running PreBind plugin "VolumeBinding": ')
    assert storage.node_of("database") == ""
