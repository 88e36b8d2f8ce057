"""Resource claims on a real API server, with the controller that makes and frees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cluster import TestCluster
from tests.live.control_plane import ControlPlane
from tests.live.device_kit import (
    FINALIZER,
    Devices,
    double_allocations,
    held_devices,
    users,
    with_claim,
    with_template,
)
from tests.live.replica import Replica, configuration
from tests.live.scene import Scene, names

SCHEDULER = "mooring-claims"


pytestmark = pytest.mark.usefixtures("claim_controller")


@pytest.fixture(scope="module")
def scheduler(cluster: TestCluster, kubeconfig: Path) -> Iterator[Replica]:
    with Replica(cluster.folder, configuration(kubeconfig, SCHEDULER)) as replica:
        yield replica.ready()
        assert replica.end() == 0, replica.log


@pytest.fixture
def devices(scene: Scene) -> Devices:
    scene.scheduler_name = SCHEDULER
    return Devices(scene)


def test_a_template_gives_each_pod_devices_of_its_own(
    devices: Devices, scene: Scene, scheduler: Replica, control_plane: ControlPlane
) -> None:
    scene.node("without")
    node = scene.node("with")
    devices.publish(node, 4)
    devices.template("two", count=2)
    for name in "abc":
        scene.pod(name, **with_template("two"))
        if name != "c":
            assert scene.bound(name) == [node]
    claims = [devices.generated(name) for name in "ab"]
    assert [held_devices(claim) for claim in claims] == [["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"]]
    assert [users(claim) for claim in claims] == [["a"], ["b"]]
    assert all(claim["metadata"]["finalizers"] == [FINALIZER] for claim in claims)
    assert all(claim["status"]["allocation"]["allocationTimestamp"] for claim in claims)
    condition = scene.refused("c", "cannot allocate all claims")
    assert condition["reason"] == "Unschedulable"

    scene.delete("a")  # the controller frees its devices, which wakes the pod that waits for them
    assert scene.bound("c") == [node]
    assert held_devices(devices.generated("c")) == ["gpu-0", "gpu-1"]
    assert double_allocations(control_plane, scene.namespace) == []


def test_pods_share_a_claim_that_is_allocated_once(
    devices: Devices, scene: Scene, scheduler: Replica, control_plane: ControlPlane
) -> None:
    for name in "xyz":
        devices.publish(scene.node(name), 1)
    devices.claim("shared")
    pods = list(names("pod", 12))
    for name in pods:
        scene.pod(name, **with_claim("shared"))
    assert len(set(scene.bound(*pods))) == 1
    claim = devices.get("shared")
    assert held_devices(claim) == ["gpu-0"]
    assert sorted(users(claim)) == pods
    assert len({w.devices for w in control_plane.claim_writes(scene.namespace) if w.devices}) == 1

    for name in pods:
        scene.delete(name)
    devices.deallocated("shared")


def test_a_claim_on_a_node_that_cannot_be_used_is_deallocated(
    devices: Devices, scene: Scene, scheduler: Replica
) -> None:
    first = scene.node("first")
    devices.publish(first, 1)
    devices.claim("gpu")
    scene.pod("early", **with_claim("gpu"))
    assert scene.bound("early") == [first]
    second = scene.node("second")
    devices.publish(second, 1)
    # Allocated, but reserved for no pod: as a scheduler leaves it that fails between the two.
    scene.delete("early")
    devices.deallocated("gpu")
    scene.api.request("PUT", f"{devices.claims_path}/gpu/status", _allocated(devices, "gpu", first))
    scene.api.patch(f"/api/v1/nodes/{first}", {"spec": {"unschedulable": True}})
    scene.pod("late", **with_claim("gpu"), tolerations=[])
    assert scene.bound("late") == [second]
    claim = devices.get("gpu")
    assert [r["pool"] for r in claim["status"]["allocation"]["devices"]["results"]] == [second]


def _allocated(devices: Devices, name: str, node: str) -> dict[str, object]:
    claim = devices.get(name)
    result = {"request": "gpu", "driver": devices.driver, "pool": node, "device": "gpu-0"}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    claim["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}
    return claim


def test_a_claim_that_keeps_changing_is_written_nevertheless(
    devices: Devices, scene: Scene, scheduler: Replica
) -> None:
    """Each annotation is a new version of the claim, which a write of an old one conflicts with."""
    node = scene.node("a")
    devices.publish(node, 30)
    for i, name in enumerate(names("pod", 30)):
        devices.claim(name)
        scene.pod(name, **with_claim(name))
        for turn in range(3):
            annotations = {"turn": str(turn * i)}
            scene.api.patch(f"{devices.claims_path}/{name}", {"metadata": {"annotations": annotations}})
    assert set(scene.bound(*names("pod", 30))) == {node}
    assert scheduler.lines("Traceback") == []


def test_an_extended_resource_is_served_by_a_class(
    scene: Scene, scheduler: Replica, devices: Devices
) -> None:
    node = scene.node("a")
    devices.publish(node, 2)
    resource = f"deviceclass.resource.kubernetes.io/{scene.namespace}"
    amounts = {"requests": {resource: "2"}, "limits": {resource: "2"}}
    scene.pod("train", containers=[{"name": "main", "image": "pause", "resources": amounts}])
    assert scene.bound("train") == [node]
    status = scene.get("train")["status"]["extendedResourceClaimStatus"]
    claim = devices.get(status["resourceClaimName"])
    assert held_devices(claim) == ["gpu-0", "gpu-1"]
    assert users(claim) == ["train"]
    assert [mapping["containerName"] for mapping in status["requestMappings"]] == ["main"]
