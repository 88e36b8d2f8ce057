"""VolumeRestrictions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.objects import Pod
from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.status import Code, Status, unresolvable, unschedulable
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner, PluginError
from tests.plugins.plugin_kit import hint, make_node, make_pod
from tests.plugins.volume_kit import VolumeCluster, claim, using

NO_DISK = unschedulable("node(s) had no available disk")
IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod"
)
RWOP = ("ReadWriteOncePod",)


def gce(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str, read_only: bool = False, lun: int = 0) -> dict[str, Any]:
    return {"iscsi": {"iqn": iqn, "lun": lun, "targetPortal": "10.0.0.1", "readOnly": read_only}}


def rbd(monitors: str, image: str, pool: str = "rbd", read_only: bool = False) -> dict[str, Any]:
    return {"rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}}


def with_disks(name: str, *disks: dict[str, Any], **spec: Any) -> Pod:
    return make_pod(name, volumes=[{"name": f"d{i}", **disk} for i, disk in enumerate(disks)], **spec)


@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        (gce("a"), gce("a"), True),
        (gce("a"), gce("b"), False),
        (gce("a", True), gce("a"), True),
        (gce("a", True), gce("a", True), False),
        (ebs("a"), ebs("a"), True),
        (ebs("a", True), ebs("a", True), True),
        (ebs("a"), gce("a"), False),
        (iscsi("q"), iscsi("q", lun=1), True),  # the target's name is all that counts
        (iscsi("q"), iscsi("r"), False),
        (iscsi("q", True), iscsi("q", True), False),
        (rbd("ab", "i"), rbd("bc", "i"), True),
        (rbd("ab", "i"), rbd("cd", "i"), False),
        (rbd("ab", "i"), rbd("ab", "j"), False),
        (rbd("ab", "i", "p"), rbd("ab", "i", "q"), False),
        (rbd("ab", "i", read_only=True), rbd("ab", "i", read_only=True), False),
    ],
)
def test_disks(mine: dict[str, Any], theirs: dict[str, Any], conflict: bool) -> None:
    nodes = [make_node("busy"), make_node("idle")]
    cluster = VolumeCluster(nodes, pods={"busy": [with_disks("there", gce("other"), theirs)]})
    answers = cluster.filter(cluster.plugin(VolumeRestrictions), with_disks("pod", mine))
    assert answers == {"busy": NO_DISK if conflict else None, "idle": None}


def test_a_terminating_pod_still_has_its_disk() -> None:
    there = with_disks("there", gce("a"))
    there = msgspec.structs.replace(
        there, metadata=msgspec.structs.replace(there.metadata, deletion_timestamp="2030-01-01T00:00:00Z")
    )
    cluster = VolumeCluster([make_node("busy")], pods={"busy": [there]})
    plugin = cluster.plugin(VolumeRestrictions)
    assert cluster.filter(plugin, with_disks("pod", gce("a"))) == {"busy": NO_DISK}


def test_removing_the_holder_frees_the_disk() -> None:
    cluster = VolumeCluster([make_node("busy")], pods={"busy": [with_disks("there", gce("a"))]})
    plugin = cluster.plugin(VolumeRestrictions)
    assert cluster.without(plugin, with_disks("pod", gce("a")), "there") == {"busy": None}


def test_a_claim_must_exist() -> None:
    cluster = VolumeCluster([make_node("n")])
    answer = cluster.pre_filter(cluster.plugin(VolumeRestrictions), make_pod(volumes=using("data")))
    assert answer == unresolvable('persistentvolumeclaim "data" not found')


@pytest.mark.parametrize("volumes", [[], using("shared"), [{"name": "e", "emptyDir": {}}]])
def test_skips_pods_that_exclude_nobody(volumes: list[dict[str, Any]]) -> None:
    cluster = VolumeCluster([make_node("n")], claim("shared", modes=("ReadWriteMany",)))
    answer = cluster.pre_filter(cluster.plugin(VolumeRestrictions), make_pod(volumes=volumes))
    assert isinstance(answer, Status)
    assert answer.code is Code.SKIP


def test_a_claim_for_one_pod_is_refused_everywhere_while_in_use() -> None:
    there = make_pod("there", volumes=using("own"))
    nodes = [make_node("a"), make_node("b")]
    cluster = VolumeCluster(nodes, claim("own", modes=RWOP), pods={"a": [there]})
    plugin, pod = cluster.plugin(VolumeRestrictions), make_pod("pod", volumes=using("own"))
    assert cluster.filter(plugin, pod) == {"a": IN_USE, "b": IN_USE}
    assert cluster.without(plugin, pod, "there") == {"a": None, "b": IN_USE}
    assert cluster.without(plugin, pod) == {"a": IN_USE, "b": IN_USE}


def test_a_claim_for_one_pod_that_nobody_uses_is_skipped() -> None:
    cluster = VolumeCluster([make_node("a")], claim("own", modes=RWOP))
    answer = cluster.pre_filter(cluster.plugin(VolumeRestrictions), make_pod(volumes=using("own")))
    assert answer.code is Code.SKIP


def test_every_claim_in_use_must_be_freed() -> None:
    pods = {"a": [make_pod("x", volumes=using("one")), make_pod("y", volumes=using("two"))]}
    cluster = VolumeCluster([make_node("a")], claim("one", modes=RWOP), claim("two", modes=RWOP), pods=pods)
    plugin, pod = cluster.plugin(VolumeRestrictions), make_pod("pod", volumes=using("one", "two"))
    assert cluster.without(plugin, pod, "x") == {"a": IN_USE}
    assert cluster.without(plugin, pod, "x", "y") == {"a": None}


def test_one_pod_may_hold_both_claims() -> None:
    pods = {"a": [make_pod("x", volumes=using("one", "two"))]}
    cluster = VolumeCluster([make_node("a")], claim("one", modes=RWOP), claim("two", modes=RWOP), pods=pods)
    plugin, pod = cluster.plugin(VolumeRestrictions), make_pod("pod", volumes=using("one", "two"))
    assert cluster.without(plugin, pod, "x") == {"a": None}


def test_removing_a_pod_frees_claims_by_name_alone() -> None:
    """As kube-scheduler counts: the victim's claim of the same name is in another namespace."""
    namesake = make_pod("namesake", volumes=using("own"))
    namesake = msgspec.structs.replace(
        namesake, metadata=msgspec.structs.replace(namesake.metadata, namespace="other")
    )
    pods = {"a": [make_pod("x", volumes=using("own"))], "b": [namesake]}
    cluster = VolumeCluster([make_node("a"), make_node("b")], claim("own", modes=RWOP), pods=pods)
    plugin, pod = cluster.plugin(VolumeRestrictions), make_pod("pod", volumes=using("own"))
    assert cluster.without(plugin, pod, "namesake") == {"a": IN_USE, "b": None}


def test_the_disk_is_told_before_the_claim() -> None:
    there = make_pod("there", volumes=[*using("own"), {"name": "d", **gce("a")}])
    cluster = VolumeCluster([make_node("a"), make_node("b")], claim("own", modes=RWOP), pods={"a": [there]})
    pod = make_pod("pod", volumes=[*using("own"), {"name": "d", **gce("a")}])
    assert cluster.filter(cluster.plugin(VolumeRestrictions), pod) == {"a": NO_DISK, "b": IN_USE}


def test_filter_without_pre_filter_is_an_error() -> None:
    cluster = VolumeCluster([make_node("a")])
    runner = FilterRunner(cluster.plugin(VolumeRestrictions))
    with pytest.raises(PluginError, match='cannot read "PreFilterVolumeRestrictions" from cycleState'):
        runner.run(EngineState(), cluster.info(make_pod()), cluster.nodes)


# ---- queueing hints

POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
CLAIM_ADD = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)


@pytest.mark.parametrize(
    ("gone", "worth"),
    [
        (with_disks("x", gce("a")), True),
        (with_disks("x", gce("b")), False),
        (make_pod("x", volumes=using("own")), True),
        (make_pod("x", volumes=using("else")), False),
        (make_pod("x"), False),
    ],
)
def test_after_a_pod_is_deleted(gone: Pod, worth: bool) -> None:
    plugin = VolumeCluster([]).plugin(VolumeRestrictions)
    pod = make_pod("pod", volumes=[*using("own"), {"name": "d", **gce("a")}])
    assert hint(plugin, POD_DELETE, pod, gone, None) is worth


def test_pods_of_other_namespaces_do_not_matter() -> None:
    plugin = VolumeCluster([]).plugin(VolumeRestrictions)
    gone = make_pod("x", volumes=using("own"))
    gone = msgspec.structs.replace(gone, metadata=msgspec.structs.replace(gone.metadata, namespace="other"))
    assert not hint(plugin, POD_DELETE, make_pod("pod", volumes=using("own")), gone, None)


def test_after_a_claim_is_added() -> None:
    plugin, pod = VolumeCluster([]).plugin(VolumeRestrictions), make_pod(volumes=using("own"))
    assert hint(plugin, CLAIM_ADD, pod, None, claim("own"))
    assert not hint(plugin, CLAIM_ADD, pod, None, claim("else"))
    assert not hint(plugin, CLAIM_ADD, pod, None, claim("own", meta={"namespace": "other"}))
    assert hint(plugin, ClusterEvent(Resource.NODE, Action.ADD), pod, None, make_node("n"))
