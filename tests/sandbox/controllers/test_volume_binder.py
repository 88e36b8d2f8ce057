"""Volumes and claims: bound to each other, provisioned, released, protected."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.sandbox.controllers.ephemeral_volumes import EphemeralVolumes
from mooring.sandbox.controllers.garbage_collector import GarbageCollector
from mooring.sandbox.controllers.provisioner import Provisioner
from mooring.sandbox.controllers.volume_binder import VolumeBinder
from mooring.sandbox.controllers.volume_matching import best_match
from mooring.sandbox.controllers.volume_protection import VolumeProtection
from tests.sandbox.controllers.kit import Embedded, Tree, play, template

ALL = (VolumeBinder, partial(Provisioner, delay=2.0), VolumeProtection)
ZONE = "topology.kubernetes.io/zone"


def volume(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Tree:
    labels = spec.pop("labels", {})
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "csi": {"driver": "d", "volumeHandle": name},
            **spec,
        },
    }


def claim(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Tree:
    spec.setdefault("storageClassName", "")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec},
    }


def storage_class(name: str, **more: Any) -> Tree:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, **more.pop("metadata", {})},
        "provisioner": "disks.example.com",
        **more,
    }


async def bound(stage: Embedded, name: str) -> str:
    """The volume of a claim, where both say that they are bound to each other."""
    found = await stage.get("persistentvolumeclaims", name)
    if found["status"].get("phase") != "Bound":
        return ""
    target: str = found["spec"]["volumeName"]
    other = await stage.get("persistentvolumes", target)
    assert other["status"]["phase"] == "Bound"
    assert other["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    assert found["status"]["capacity"] == other["spec"]["capacity"]
    assert found["status"]["accessModes"] == other["spec"]["accessModes"]
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    return target


async def phase(stage: Embedded, plural: str, name: str) -> str:
    found: str = (await stage.get(plural, name))["status"].get("phase", "")
    return found


async def told(stage: Embedded) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in await stage.events()]


async def select(stage: Embedded, name: str, node: str) -> None:
    """What a scheduler does about a claim whose volume is to be made on a node."""
    annotations = {"volume.kubernetes.io/selected-node": node}
    await stage.patch("persistentvolumeclaims", name, {"metadata": {"annotations": annotations}})
    await stage.rest()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (claim("c"), "small"),
        (claim("c", "3Gi"), "large"),
        (claim("c", "200Gi"), ""),
        (claim("c", modes=("ReadWriteMany",)), "shared"),
        (claim("c", storageClassName="fast"), "fast"),
        (claim("c", selector={"matchLabels": {"tier": "gold"}}), "gold"),
        (claim("c", volumeMode="Block"), "block"),
        (claim("c", volumeName="large"), "large"),
        (claim("c", "5Gi", volumeName="small"), ""),
        (claim("c", volumeName="fast"), ""),
        (claim("c", volumeName="nowhere"), ""),
    ],
)
def test_static_volumes(wanted: Tree, expected: str) -> None:
    async def scene(stage: Embedded) -> None:
        for body in (
            volume("large", "10Gi"),
            volume("small", "2Gi"),
            volume("shared", "1Gi", ("ReadWriteOnce", "ReadWriteMany")),
            volume("fast", "1Gi", storageClassName="fast"),
            volume("gold", "50Gi", labels={"tier": "gold"}),
            volume("block", "1Gi", volumeMode="Block"),
        ):
            await stage.create(body)
        await stage.rest()
        assert await phase(stage, "persistentvolumes", "large") == "Available"
        await stage.create(wanted)
        await stage.rest()
        assert await bound(stage, "c") == expected
        assert await phase(stage, "persistentvolumeclaims", "c") == ("Bound" if expected else "Pending")

    play(scene, *ALL)


def test_a_volume_that_comes_later() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(claim("c"))
        await stage.rest()
        note = "no persistent volumes available for this claim and no storage class is set"
        assert ("FailedBinding", note) in await told(stage)
        await stage.create(volume("v"))
        await stage.rest()
        assert await bound(stage, "c") == "v"
        annotations = (await stage.get("persistentvolumes", "v"))["metadata"]["annotations"]
        assert annotations["pv.kubernetes.io/bound-by-controller"] == "yes"

    play(scene, *ALL)


def test_volumes_that_are_meant_for_somebody() -> None:
    async def scene(stage: Embedded) -> None:
        mine = {"namespace": "default", "name": "mine"}
        await stage.create(volume("reserved", "100Gi", claimRef=mine))
        await stage.create(claim("other"))
        await stage.rest()
        assert await bound(stage, "other") == ""
        await stage.create(volume("tiny"))
        await stage.create(claim("mine"))
        await stage.create(claim("late", volumeName="reserved"))
        await stage.rest()
        assert await bound(stage, "mine") == "reserved"
        assert await bound(stage, "other") == "tiny"
        assert await phase(stage, "persistentvolumeclaims", "late") == "Pending"
        assert ("FailedBinding", 'volume "reserved" already bound to a different claim.') in await told(stage)

    play(scene, *ALL)


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_what_becomes_of_a_volume_whose_claim_goes(policy: str) -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(volume("v", persistentVolumeReclaimPolicy=policy))
        await stage.create(claim("c"))
        await stage.rest()
        await stage.delete("persistentvolumeclaims", "c")
        await stage.rest()
        assert await stage.all("persistentvolumeclaims") == []
        assert await phase(stage, "persistentvolumes", "v") == "Released"
        await stage.create(claim("c"))  # another by the same name does not get it
        await stage.advance(10)
        assert await phase(stage, "persistentvolumeclaims", "c") == "Pending"
        assert len(await stage.all("persistentvolumes")) == (1 if policy == "Retain" else 0)

    play(scene, *ALL)


def test_a_claim_whose_volume_goes_is_lost() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(volume("v"))
        await stage.create(claim("c"))
        await stage.rest()
        await stage.delete("persistentvolumes", "v")
        await stage.rest()
        assert await bound(stage, "c") == "v"  # it is protected as long as it is bound
        await stage.patch("persistentvolumes", "v", {"metadata": {"finalizers": None}})
        await stage.rest()
        assert await phase(stage, "persistentvolumeclaims", "c") == "Lost"
        note = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        assert ("ClaimLost", note) in await told(stage)

    play(scene, *ALL)


def test_provisioning_at_once() -> None:
    async def scene(stage: Embedded) -> None:
        for name in ("a", "b"):
            metadata = {"name": f"n-{name}", "labels": {ZONE: name}}
            await stage.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        await stage.create(storage_class("fast", reclaimPolicy="Delete"))
        await stage.create(claim("c", "3Gi", storageClassName="fast"))
        await stage.advance(1.9)
        assert await stage.all("persistentvolumes") == []
        await stage.advance(0.2)
        name = await bound(stage, "c")
        uid = (await stage.get("persistentvolumeclaims", "c"))["metadata"]["uid"]
        assert name == f"pvc-{uid}"
        made = await stage.get("persistentvolumes", name)
        assert made["spec"]["capacity"] == {"storage": "3Gi"}
        assert made["spec"]["csi"]["driver"] == "disks.example.com"
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] in (["a"], ["b"])
        reasons = [reason for reason, _ in await told(stage)]
        assert reasons[-3:] == ["ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"]
        await stage.delete("persistentvolumeclaims", "c")
        await stage.advance(5)
        assert await stage.all("persistentvolumes") == []

    play(scene, *ALL)


def test_provisioning_for_the_first_consumer() -> None:
    async def scene(stage: Embedded) -> None:
        metadata = {"name": "n1", "labels": {ZONE: "here", "topology.kubernetes.io/region": "r"}}
        await stage.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        await stage.create(storage_class("late", volumeBindingMode="WaitForFirstConsumer"))
        await stage.create(volume("free", storageClassName="late"))
        await stage.create(claim("c", storageClassName="late"))
        await stage.advance(600)
        assert await phase(stage, "persistentvolumeclaims", "c") == "Pending"
        waiting = ("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        assert waiting in await told(stage)
        await select(stage, "c", "n1")
        await stage.advance(3)
        made = await stage.get("persistentvolumes", await bound(stage, "c"))
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert {one["key"]: one["values"] for one in term["matchExpressions"]} == {
            ZONE: ["here"],
            "topology.kubernetes.io/region": ["r"],
        }

    play(scene, *ALL)


def test_a_volume_that_the_scheduler_chose() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(storage_class("late", volumeBindingMode="WaitForFirstConsumer"))
        await stage.create(volume("v", storageClassName="late"))
        made = await stage.create(claim("c", storageClassName="late"))
        await stage.rest()
        reference = {"namespace": "default", "name": "c", "uid": made["metadata"]["uid"]}
        await stage.patch("persistentvolumes", "v", {"spec": {"claimRef": reference}})
        await stage.rest()
        assert await bound(stage, "c") == "v"

    play(scene, *ALL)


def test_allowed_topologies() -> None:
    async def scene(stage: Embedded) -> None:
        for name in ("a", "b"):
            metadata = {"name": name, "labels": {ZONE: name}}
            await stage.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
        mode = "WaitForFirstConsumer"
        await stage.create(storage_class("late", volumeBindingMode=mode, allowedTopologies=allowed))
        await stage.create(claim("c", storageClassName="late"))
        await stage.rest()
        await select(stage, "c", "a")
        await stage.advance(3)
        annotations = (await stage.get("persistentvolumeclaims", "c"))["metadata"]["annotations"]
        assert "volume.kubernetes.io/selected-node" not in annotations
        assert "ProvisioningFailed" in [reason for reason, _ in await told(stage)]
        await select(stage, "c", "b")
        await stage.advance(3)
        assert await bound(stage, "c")

    play(scene, *ALL)


def test_nobody_provisions_where_there_is_no_provisioner() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create({**storage_class("none"), "provisioner": "kubernetes.io/no-provisioner"})
        await stage.create(claim("c", storageClassName="none"))
        await stage.create(claim("d", storageClassName="unheard-of"))
        await stage.advance(60)
        notes = await told(stage)
        no_plugin = "no volume plugin matched name: kubernetes.io/no-provisioner"
        assert ("ProvisioningFailed", no_plugin) in notes
        assert ("ProvisioningFailed", 'storageclass.storage.k8s.io "unheard-of" not found') in notes
        assert await stage.all("persistentvolumes") == []
        await stage.create(storage_class("unheard-of"))
        await stage.advance(3)
        assert await bound(stage, "d")

    play(scene, *ALL)


def test_claims_without_a_class_take_the_default_that_comes_later() -> None:
    async def scene(stage: Embedded) -> None:
        body = claim("c")
        del body["spec"]["storageClassName"]
        await stage.create(body)
        await stage.create(claim("none"))
        await stage.rest()
        default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
        await stage.create(storage_class("std", metadata=default))
        await stage.advance(5)
        assert await bound(stage, "c")
        assert (await stage.get("persistentvolumeclaims", "c"))["spec"]["storageClassName"] == "std"
        assert await phase(stage, "persistentvolumeclaims", "none") == "Pending"

    play(scene, *ALL)


def test_claims_in_use_stay() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(volume("v"))
        await stage.create(claim("c"))
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
        pod = {"apiVersion": "v1", "kind": "Pod", **template("app", volumes=volumes)}
        await stage.create({**pod, "metadata": {"name": "p"}})
        await stage.bind("p", "n1")
        await stage.rest()
        finalizers = (await stage.get("persistentvolumeclaims", "c"))["metadata"]["finalizers"]
        assert finalizers == ["kubernetes.io/pvc-protection"]
        await stage.delete("persistentvolumeclaims", "c")
        await stage.advance(60)
        assert await bound(stage, "c") == "v"
        await stage.delete("pods", "p", grace=0)
        await stage.rest()
        assert await stage.all("persistentvolumeclaims") == []

    play(scene, *ALL)


def test_claims_made_for_a_pod_go_with_it() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(storage_class("fast"))
        spec = claim("", storageClassName="fast")["spec"]
        source = {"volumeClaimTemplate": {"metadata": {"labels": {"made": "so"}}, "spec": spec}}
        pod = {"apiVersion": "v1", "kind": "Pod"}
        pod |= template("app", volumes=[{"name": "scratch", "ephemeral": source}])
        await stage.create({**pod, "metadata": {"name": "p"}})
        await stage.advance(5)
        assert await bound(stage, "p-scratch")
        found = await stage.get("persistentvolumeclaims", "p-scratch")
        assert found["metadata"]["labels"] == {"made": "so"}
        await stage.delete("pods", "p", grace=0)
        await stage.advance(10)
        assert await stage.all("persistentvolumeclaims") == []
        assert await stage.all("persistentvolumes") == []

    play(scene, *ALL, EphemeralVolumes, GarbageCollector)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sets(st.sampled_from("ABC"), min_size=1)), max_size=8),
    st.integers(1, 9),
)
def test_the_smallest_of_those_with_the_fewest_modes(found: list[tuple[int, set[str]]], size: int) -> None:
    volumes = [PersistentVolume() for _ in found]
    for index, (one, (capacity, modes)) in enumerate(zip(volumes, found, strict=True)):
        one.metadata.name = f"v{index}"
        one.spec.capacity = {"storage": f"{capacity}Gi"}
        one.spec.access_modes = sorted(modes)
        one.status.phase = "Available"
    wanted = PersistentVolumeClaim()
    wanted.spec.access_modes = ["A"]
    wanted.spec.resources = type(wanted.spec.resources)(requests={"storage": f"{size}Gi"})
    best = best_match(wanted, volumes, delayed=False)
    able = [(len(modes), capacity) for capacity, modes in found if "A" in modes and capacity >= size]
    if not able:
        assert best is None
    else:
        assert best is not None
        assert (len(best.spec.access_modes), int(str(best.spec.capacity["storage"])[:-2])) == min(able)
    assert best_match(wanted, volumes, delayed=True) is None
