"""NodeVolumeLimits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.status import Code, Status, unresolvable, unschedulable
from mooring.plugins.node_volume_limits.node_volume_limits import NodeVolumeLimits
from mooring.runtime.runners import PluginError
from tests.plugins.plugin_kit import hint, make_node, make_pod
from tests.plugins.volume_kit import (
    VolumeCluster,
    attachment,
    claim,
    csi_node,
    csi_volume,
    storage_class,
    using,
    volume,
)

DRIVER = "csi.example.com"
TOO_MANY = unschedulable("node(s) exceed max volume count")


def bound(*names: str) -> list[Any]:
    """Claims, each bound to a CSI volume of its own."""
    return [made for name in names for made in (claim(name, volume=f"pv-{name}"), csi_volume(f"pv-{name}"))]


def check(cluster: VolumeCluster, pod: Pod) -> Status | None:
    return cluster.filter(cluster.plugin(NodeVolumeLimits), pod)["n"]


def with_limit(limit: int | None, *objects: Any, pods: list[Pod] | None = None) -> VolumeCluster:
    """One node that takes so many volumes of the driver."""
    node = csi_node("n", {DRIVER: limit})
    return VolumeCluster([make_node("n")], storage_class("wait"), node, *objects, pods={"n": pods or []})


# ---- counting


@pytest.mark.parametrize(("limit", "passes"), [(3, True), (2, False), (0, False), (None, True)])
def test_limit(limit: int | None, passes: bool) -> None:
    there = [make_pod("x", volumes=using("a")), make_pod("y", volumes=using("b"))]
    cluster = with_limit(limit, *bound("a", "b", "c"), pods=there)
    assert check(cluster, make_pod(volumes=using("c"))) == (None if passes else TOO_MANY)


def test_a_volume_that_is_there_already_costs_nothing() -> None:
    cluster = with_limit(1, *bound("a", "b"), pods=[make_pod("x", volumes=using("a"))])
    assert check(cluster, make_pod(volumes=using("a"))) is None
    assert check(cluster, make_pod(volumes=using("a", "b"))) == TOO_MANY


def test_a_node_beyond_its_limit_still_takes_what_it_has() -> None:
    cluster = with_limit(0, *bound("a"), pods=[make_pod("x", volumes=using("a"))])
    assert check(cluster, make_pod(volumes=using("a"))) is None


def test_pods_that_share_a_volume_count_once() -> None:
    there = [make_pod(name, volumes=using("a")) for name in "xyz"]
    assert check(with_limit(2, *bound("a", "b"), pods=there), make_pod(volumes=using("b"))) is None


def test_claims_yet_to_be_provisioned_count_for_their_class() -> None:
    cluster = with_limit(1, claim("new"), claim("newer"), storage_class("other", "other.driver"))
    assert check(cluster, make_pod(volumes=using("new"))) is None
    assert check(cluster, make_pod(volumes=using("new", "newer"))) == TOO_MANY
    cluster.put(claim("newer", class_name="other"))
    assert check(cluster, make_pod(volumes=using("new", "newer"))) is None
    cluster.put(claim("newer", class_name=None))
    assert check(cluster, make_pod(volumes=using("new", "newer"))) is None


def test_a_claim_whose_volume_is_gone_counts_for_its_class() -> None:
    cluster = with_limit(0, claim("lost", volume="gone"))
    assert check(cluster, make_pod(volumes=using("lost"))) == TOO_MANY


def test_drivers_are_counted_apart() -> None:
    objects = [*bound("a"), claim("b", volume="pv-b"), csi_volume("pv-b", "other.driver")]
    cluster = with_limit(1, *objects, pods=[make_pod("x", volumes=using("b"))])
    assert check(cluster, make_pod(volumes=using("a"))) is None


def test_volumes_that_are_not_csi_do_not_count() -> None:
    cluster = with_limit(0, claim("nfs", volume="pv"), volume("pv", phase="Bound"))
    assert check(cluster, make_pod(volumes=using("nfs"))) is None


def test_a_pod_whose_claim_is_gone_does_not_count() -> None:
    cluster = with_limit(1, *bound("a"), pods=[make_pod("x", volumes=using("deleted"))])
    assert check(cluster, make_pod(volumes=using("a"))) is None


def test_nodes_without_limit_or_csi_node_pass() -> None:
    nodes = [make_node("free"), make_node("unlimited"), make_node("full")]
    limits = [csi_node("unlimited", {DRIVER: None}), csi_node("full", {DRIVER: 0}), csi_node("gone")]
    cluster = VolumeCluster(nodes, *bound("a"), *limits)
    answers = cluster.filter(cluster.plugin(NodeVolumeLimits), make_pod(volumes=using("a")))
    assert answers == {"free": None, "unlimited": None, "full": TOO_MANY}


# ---- VolumeAttachments


def test_what_is_attached_without_a_pod_counts() -> None:
    cluster = with_limit(1, *bound("a", "b"), attachment("va", "n", "pv-b"))
    assert check(cluster, make_pod(volumes=using("a"))) == TOO_MANY


def test_what_a_pod_has_attached_is_not_counted_twice() -> None:
    there = [make_pod("x", volumes=using("b"))]
    cluster = with_limit(2, *bound("a", "b"), attachment("va", "n", "pv-b"), pods=there)
    assert check(cluster, make_pod(volumes=using("a"))) is None


def test_an_idle_attachment_counts_even_for_its_own_pod() -> None:
    """As kube-scheduler counts: only volumes of pods on the node are free for the new pod."""
    cluster = with_limit(1, *bound("a"), attachment("va", "n", "pv-a"))
    assert check(cluster, make_pod(volumes=using("a"))) == TOO_MANY


def test_attachments_that_say_nothing_do_not_count() -> None:
    objects = [attachment("elsewhere", "m", "pv-b"), attachment("gone", "n", "no-volume")]
    cluster = with_limit(1, *bound("a", "b"), *objects, attachment("nobody", "n", "pv-b", driver=""))
    assert check(cluster, make_pod(volumes=using("a"))) is None


# ---- CSI migration


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io"),
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "ebs.csi.aws.com"),
        ({"azureDisk": {"diskName": "d", "diskURI": "uri"}}, "disk.csi.azure.com"),
        ({"cinder": {"volumeID": "d"}}, "cinder.csi.openstack.org"),
        ({"portworxVolume": {"volumeID": "d"}}, "pxd.portworx.com"),
    ],
)
def test_in_tree_volumes_count_for_their_drivers(source: dict[str, Any], driver: str) -> None:
    limits = csi_node("full", {driver: 0})
    cluster = VolumeCluster([make_node("full"), make_node("old")], limits)
    plugin = cluster.plugin(NodeVolumeLimits)
    expected = {"full": TOO_MANY, "old": None}
    assert cluster.filter(plugin, make_pod(volumes=[{"name": "v", **source}])) == expected
    cluster.put(claim("data", volume="pv"), volume("pv", **source))
    assert cluster.filter(plugin, make_pod(volumes=using("data"))) == expected


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        ({"azureFile": {"secretName": "s", "shareName": "d"}}, "file.csi.azure.com"),
        ({"vsphereVolume": {"volumePath": "d"}}, "csi.vsphere.vmware.com"),
    ],
)
def test_plugins_whose_migration_the_scheduler_ignores(source: dict[str, Any], driver: str) -> None:
    cluster = VolumeCluster([make_node("n")], csi_node("n", {driver: 0}))
    pod = make_pod(volumes=[{"name": "v", **source}])
    assert cluster.pre_filter(cluster.plugin(NodeVolumeLimits), pod) is None  # not skipped all the same
    assert check(cluster, pod) is None


def test_an_in_tree_provisioner_counts_for_its_driver() -> None:
    cluster = VolumeCluster(
        [make_node("n")],
        csi_node("n", {"ebs.csi.aws.com": 0}),
        storage_class("wait", "kubernetes.io/aws-ebs"),
        claim("data"),
    )
    assert check(cluster, make_pod(volumes=using("data"))) == TOO_MANY
    cluster.put(storage_class("wait", "kubernetes.io/azure-file"))
    assert check(cluster, make_pod(volumes=using("data"))) is None


def test_the_same_disk_inline_and_through_a_claim_is_one_volume() -> None:
    cluster = VolumeCluster(
        [make_node("n")],
        csi_node("n", {"ebs.csi.aws.com": 1}),
        claim("data", volume="pv"),
        volume("pv", awsElasticBlockStore={"volumeID": "aws://us-east-1a/vol-1"}),
        pods={"n": [make_pod("x", volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}])]},
    )
    assert check(cluster, make_pod(volumes=using("data"))) is None


def test_an_inline_disk_that_cannot_be_translated_is_an_error() -> None:
    pod = make_pod(volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "aws://z/nonsense"}}])
    cluster = VolumeCluster([make_node("n")])
    assert check(cluster, pod) is None  # nothing is translated where nothing is CSI
    cluster.put(csi_node("n", {"ebs.csi.aws.com": 1}))
    with pytest.raises(PluginError, match=r"converting volume\(v\) from inline to csi: failed to translate"):
        check(cluster, pod)


# ---- claims of new pods


def test_a_missing_claim() -> None:
    cluster = with_limit(1)
    expected = unresolvable('looking up PVC default/data: persistentvolumeclaim "data" not found')
    assert check(cluster, make_pod(volumes=using("data"))) == expected


def test_an_ephemeral_claim_must_be_the_pods() -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]
    owner = {"ownerReferences": [{"uid": "pod", "controller": True, "kind": "Pod", "name": "pod"}]}
    cluster = with_limit(0, claim("pod-v", meta=owner))
    assert check(cluster, make_pod("pod", volumes=volumes)) == TOO_MANY
    cluster.put(claim("pod-v"))
    message = r"PVC default/pod-v was not created for pod default/pod \(pod is not owner\)"
    with pytest.raises(PluginError, match=message):
        check(cluster, make_pod("pod", volumes=volumes))


def test_skips_pods_without_such_volumes() -> None:
    cluster = with_limit(0)
    for volumes in ([], [{"name": "e", "emptyDir": {}}], [{"name": "i", "iscsi": {"iqn": "q"}}]):
        answer = cluster.pre_filter(cluster.plugin(NodeVolumeLimits), make_pod(volumes=volumes))
        assert answer.code is Code.SKIP


# ---- pods that come and go


def test_removing_pods_makes_room() -> None:
    there = [make_pod("x", volumes=using("a")), make_pod("y", volumes=using("a", "b"))]
    cluster = with_limit(2, *bound("a", "b", "c"), pods=there)
    plugin, pod = cluster.plugin(NodeVolumeLimits), make_pod(volumes=using("c"))
    assert cluster.filter(plugin, pod) == {"n": TOO_MANY}
    assert cluster.without(plugin, pod, "x") == {"n": TOO_MANY}  # y has volume a as well
    assert cluster.without(plugin, pod, "y") == {"n": None}
    cluster.put(attachment("va", "n", "pv-b"))
    assert cluster.without(plugin, pod, "y") == {"n": TOO_MANY}  # still attached


def random_change(cluster: VolumeCluster, rng: random.Random) -> None:
    """One of the things that happen in a cluster."""
    names = "abcdef"
    name, node = rng.choice(names), f"n{rng.randrange(5)}"
    what = rng.randrange(9)
    if what == 0:
        cluster.put(claim(name, volume=rng.choice(["", f"pv-{name}", f"pv-{rng.choice(names)}"])))
    elif what == 1:
        cluster.put(csi_volume(f"pv-{name}", rng.choice([DRIVER, "other.driver"])))
    elif what == 2:
        if rng.random() < 0.5:
            cluster.store.remove(PersistentVolumeClaim, f"default/{name}")
        else:
            cluster.store.remove(PersistentVolume, f"pv-{name}")
    elif what == 3:
        cluster.put(attachment(f"va-{name}", node, f"pv-{name}"))
    elif what == 4:
        cluster.store.remove(VolumeAttachment, f"va-{name}")
    elif what == 5:
        cluster.put(csi_node(node, {DRIVER: rng.randrange(4)}))
    elif what == 6 and cluster.node(node) is not None:
        cluster.remove_node(node)
    elif what == 7:
        cluster.add_node(make_node(node))
    else:
        uid = f"p{rng.randrange(12)}"
        if cluster.placed(uid) is not None:
            cluster.remove_pod(uid)
        else:
            volumes = using(*rng.sample(names, rng.randrange(4)))
            cluster.assume(cluster.info(make_pod(uid, volumes=volumes)), node)


@pytest.mark.parametrize("seed", range(12))
def test_keeping_count_equals_counting_anew(seed: int) -> None:
    """The plugin that saw every change answers like one that sees the cluster for the first time."""
    rng = random.Random(seed)
    cluster = with_limit(1, *bound(*"abc"))
    kept = cluster.plugin(NodeVolumeLimits)
    for _ in range(150):
        for _ in range(rng.randrange(1, 4)):
            random_change(cluster, rng)
        pod = make_pod("new", volumes=using(*rng.sample("abc", 2)))
        pod_claims = [cluster.store.get(PersistentVolumeClaim, name, "default") for name in "abc"]
        if None in pod_claims or not len(cluster.nodes):
            continue
        assert cluster.filter(kept, pod) == cluster.filter(cluster.plugin(NodeVolumeLimits), pod)


@pytest.mark.parametrize("seed", range(6))
def test_asking_what_if_equals_trying_it(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        cluster = with_limit(rng.randrange(4), *bound(*"abcde"), attachment("va", "n", "pv-b"))
        for i in range(5):
            volumes = using(*rng.sample("abcde", rng.randrange(3)))
            cluster.assume(cluster.info(make_pod(f"p{i}", volumes=volumes)), "n")
        pod, gone = make_pod("new", volumes=using("a", "c")), rng.sample([f"p{i}" for i in range(5)], 2)
        plugin = cluster.plugin(NodeVolumeLimits)
        asked = cluster.without(plugin, pod, *gone)
        for uid in gone:
            cluster.remove_pod(uid)
        assert asked == cluster.filter(plugin, pod)


# ---- queueing hints


def test_hint_for_csi_nodes() -> None:
    plugin, pod = VolumeCluster([]).plugin(NodeVolumeLimits), make_pod(volumes=using("a"))
    update = ClusterEvent(Resource.CSI_NODE, Action.UPDATE)
    assert hint(plugin, ClusterEvent(Resource.CSI_NODE, Action.ADD), pod, None, csi_node("n"))
    assert hint(plugin, update, pod, csi_node("n", {DRIVER: 1}), csi_node("n", {DRIVER: 2}))
    assert hint(plugin, update, pod, csi_node("n"), csi_node("n", {DRIVER: 2}))
    assert not hint(plugin, update, pod, csi_node("n", {DRIVER: 2}), csi_node("n", {DRIVER: 2}))
    assert not hint(plugin, update, pod, csi_node("n", {DRIVER: 2}), csi_node("n", {DRIVER: 1}))
    assert not hint(plugin, update, pod, csi_node("n", {DRIVER: 2}), csi_node("n", {DRIVER: None}))


@pytest.mark.parametrize(
    ("gone", "worth"),
    [
        (make_pod("x", volumes=using("a"), nodeName="n"), True),
        (make_pod("x", volumes=using("a"), status={"nominatedNodeName": "n"}), True),
        (make_pod("x", volumes=using("a")), False),
        (make_pod("x", nodeName="n"), False),
        (make_pod("x", volumes=[{"name": "e", "emptyDir": {}}], nodeName="n"), False),
        (make_pod("x", volumes=[{"name": "g", "gcePersistentDisk": {"pdName": "d"}}], nodeName="n"), True),
    ],
)
def test_hint_for_deleted_pods(gone: Pod, worth: bool) -> None:
    plugin, pod = VolumeCluster([]).plugin(NodeVolumeLimits), make_pod(volumes=using("a"))
    assert hint(plugin, ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), pod, gone, None) is worth


def test_hint_for_claims() -> None:
    plugin = VolumeCluster([]).plugin(NodeVolumeLimits)
    add = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
    ephemeral = make_pod("web", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}])
    assert hint(plugin, add, make_pod(volumes=using("a")), None, claim("a"))
    assert hint(plugin, add, ephemeral, None, claim("web-v"))
    assert not hint(plugin, add, ephemeral, None, claim("v"))
    assert not hint(plugin, add, make_pod(volumes=using("a")), None, claim("a", meta={"namespace": "b"}))


def test_hint_for_detached_volumes() -> None:
    plugin = VolumeCluster([]).plugin(NodeVolumeLimits)
    event = ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE)
    disk = make_pod(volumes=[{"name": "g", "gcePersistentDisk": {"pdName": "d"}}])
    ours = attachment("va", "n", "pv", driver="pd.csi.storage.gke.io")
    assert hint(plugin, event, make_pod(volumes=using("a")), attachment("va", "n", "pv"), None)
    assert hint(plugin, event, disk, ours, None)
    assert not hint(plugin, event, disk, attachment("va", "n", "pv"), None)
    assert not hint(plugin, event, make_pod(), attachment("va", "n", "pv"), None)
    assert not hint(plugin, ClusterEvent(Resource.NODE, Action.ADD), disk, None, make_node("n"))
