"""Devices of fake nodes: what the fake driver publishes, and what kubelets wait for."""

from __future__ import annotations

import json

import pytest

from mooring.sandbox.kubelet import NodesFileError
from mooring.sandbox.kubelet.devices import DeviceError, DeviceGroup, devices_by_driver
from mooring.sandbox.kubelet.nodes_file import read_nodes
from tests.sandbox.controllers.kit import resource
from tests.sandbox.kubelet.kit import Nodes, Tree, play

FILE = """
- name: gpu
  count: 2
  devices:
  - driver: gpu.example.com
    name: gpu
    count: 3
    attributes: {model: A100, numa: [0, 1], nvlink: true, firmware: {version: 1.2.3}}
    capacity: {memory: 80Gi}
  - {driver: nic.example.com, name: nic}
"""
TAINT = {"key": "hot", "effect": "NoSchedule"}


async def slices(stage: Nodes, node: str = "gpu-1") -> list[Tree]:
    found = [one["spec"] for one in await stage.all("resourceslices")]
    return sorted((one for one in found if one["nodeName"] == node), key=lambda one: str(one["driver"]))


async def annotate(stage: Nodes, node: str = "gpu-1", **values: object) -> None:
    named = {f"mooring/{name.replace('_', '-')}": value for name, value in values.items()}
    await stage.cluster.patch(resource("nodes"), node, {"metadata": {"annotations": named}})
    await stage.rest()


def test_devices_of_the_nodes_file_are_published() -> None:
    async def scene(stage: Nodes) -> None:
        gpu, nic = await slices(stage)
        pool = {"name": "gpu-1", "generation": 1, "resourceSliceCount": 1}
        assert (gpu["driver"], gpu["pool"]) == ("gpu.example.com", pool)
        assert [device["name"] for device in gpu["devices"]] == ["gpu-0", "gpu-1", "gpu-2"]
        assert gpu["devices"][1] == {
            "name": "gpu-1",
            "attributes": {
                "model": {"string": "A100"},
                "numa": {"int": 1},
                "nvlink": {"bool": True},
                "firmware": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        assert nic["devices"] == [{"name": "nic"}]
        assert len(await stage.all("resourceslices")) == 4

    play(scene, nodes=read_nodes(FILE, "gpus.yaml"))


def test_devices_fail_return_and_are_tainted() -> None:
    async def scene(stage: Nodes) -> None:
        await annotate(stage, failed_devices="gpu.example.com/gpu-1")
        gpu, _ = await slices(stage)
        assert [device["name"] for device in gpu["devices"]] == ["gpu-0", "gpu-2"]
        assert gpu["pool"]["generation"] == 2
        await annotate(
            stage,
            failed_devices=None,
            device_taints=json.dumps({"gpu.example.com/gpu-0": [TAINT]}),
        )
        gpu, _ = await slices(stage)
        assert [len(device.get("taints", ())) for device in gpu["devices"]] == [1, 0, 0]
        assert gpu["pool"]["generation"] == 3
        await stage.advance(60)
        assert (await slices(stage))[0]["pool"]["generation"] == 3
        await annotate(stage, devices="nonsense")
        assert len(await slices(stage)) == 2
        assert [event.reason for event in await stage.events()] == ["InvalidAnnotation"]

    play(scene, nodes=read_nodes(FILE, "gpus.yaml"))


def test_a_slice_that_is_deleted_is_published_again() -> None:
    async def scene(stage: Nodes) -> None:
        for one in await stage.all("resourceslices"):
            await stage.delete("resourceslices", one["metadata"]["name"])
        await stage.rest()
        assert len(await slices(stage)) == 2
        await annotate(stage, devices=None)
        assert await slices(stage) == []

    play(scene, nodes=read_nodes(FILE, "gpus.yaml"))


def test_many_devices_take_several_slices() -> None:
    async def scene(stage: Nodes) -> None:
        pools = [one["pool"] for one in await slices(stage, "big")]
        assert pools == [{"name": "big", "generation": 1, "resourceSliceCount": 2}] * 2
        await annotate(stage, "big", devices='[{"driver": "d", "count": 3}]')
        (only,) = await slices(stage, "big")
        assert (len(only["devices"]), only["pool"]["generation"]) == (3, 2)

    play(scene, nodes=read_nodes("- {name: big, devices: [{driver: d, count: 100}]}", "big.yaml"))


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        ("{driver: UP_PER}", "driver: Invalid value"),
        ("{driver: d, name: Bad}", "devices[0].name: Invalid value"),
        ("{driver: d, count: 2, attributes: {a: {b: c}}}", "attributes.a: expected a text"),
        ("{driver: d, attributes: {-a: 1}}", "devices[0].attributes: Invalid value"),
        ("{driver: d, count: 2000}", "more than 1024 devices"),
        ("{driver: d}, {driver: d}", "d: device defined twice"),
        ("{name: d}", "devices"),
    ],
)
def test_invalid_devices_are_reported_with_their_place(devices: str, problem: str) -> None:
    with pytest.raises(NodesFileError, match="nodes entry 1") as caught:
        read_nodes(f"- {{name: a, devices: [{devices}]}}", "n.yaml")
    assert problem in str(caught.value)


def test_devices_are_bounded() -> None:
    with pytest.raises(DeviceError):
        devices_by_driver([DeviceGroup(driver="d", count=600)] * 2)


def claim(name: str) -> Tree:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }


async def allocate(stage: Nodes, name: str, pod: Tree) -> None:
    result = {"request": "gpu", "driver": "d", "pool": "node-1", "device": "gpu-0"}
    consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    await stage.patch("resourceclaims", name, {"status": status}, "status")
    await stage.rest()


def test_a_claim_that_was_made_for_another_pod_is_not_used() -> None:
    async def scene(stage: Nodes) -> None:
        pod = await stage.run_pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
        await stage.create(claim("theirs"))
        await allocate(stage, "theirs", pod)
        named = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "theirs"}]}
        await stage.patch("pods", "web", {"status": named}, "status")
        await stage.rest()
        assert await stage.phase() == "Pending"
        notes = [event.message.partition("resources: ")[2] for event in await stage.events()]
        assert notes == [
            'prepare dynamic resources: pod "default/web": ResourceClaim not created yet',
            "prepare dynamic resources: ResourceClaim default/theirs was not created for Pod default/web "
            "(Pod is not owner)",
        ]

    play(scene)


def test_a_pod_starts_when_its_claims_are_reserved_for_it() -> None:
    async def scene(stage: Nodes) -> None:
        pod = await stage.run_pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
        assert await stage.phase() == "Pending"
        await stage.create(claim("mine"))
        await stage.rest()
        assert await stage.phase() == "Pending"
        await allocate(stage, "mine", pod)
        assert await stage.phase() == "Running"
        notes = [event.message for event in await stage.events() if event.reason.startswith("FailedPrepare")]
        assert notes[0] == (
            "Failed to prepare dynamic resources: prepare dynamic resources: fetch ResourceClaim mine: "
            'resourceclaims.resource.k8s.io "mine" not found'
        )
        assert f"pod web ({pod['metadata']['uid']}) is not allowed to use ResourceClaim mine" in notes[1]

    play(scene)
