"""VolumeBinding: on which nodes a pod's claims can be had, and what is reserved there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.api.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim
from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.status import Code, Status, unresolvable
from mooring.plugins.volume_binding.volume_binding import VolumeBinding
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner, PluginError
from tests.plugins.plugin_kit import hint, make_node, make_pod
from tests.plugins.volume_kit import (
    HOST,
    ZONE,
    VolumeCluster,
    capacity,
    claim,
    csi_node,
    csi_volume,
    storage_class,
    using,
    volume,
)

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
SELECTED = "volume.kubernetes.io/selected-node"


def cluster_of(*objects: KubeObject, classes: bool = True) -> VolumeCluster:
    """Nodes a, b and c, each with its name as host and zone; the class "wait" has no provisioner."""
    nodes = [make_node(name, labels={HOST: name, ZONE: f"z-{name}"}) for name in "abc"]
    known = [storage_class("wait", "kubernetes.io/no-provisioner"), storage_class("make")] if classes else []
    return VolumeCluster(nodes, *known, *objects)


def reasons(cluster: VolumeCluster, pod: Pod, plugin: VolumeBinding | None = None) -> dict[str, list[str]]:
    """Node → why not; nodes that pass are left out."""
    answers = cluster.filter(plugin or cluster.plugin(VolumeBinding), pod)
    found = {name: status for name, status in answers.items() if status is not None}
    assert all(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in found.values())
    return {name: list(status.reasons) for name, status in found.items()}


def place(cluster: VolumeCluster, plugin: VolumeBinding, pod: Pod, node: str) -> EngineState:
    """One cycle that ends with the pod reserved on a node."""
    state, info = EngineState(), cluster.info(pod)
    assert plugin.pre_filter(state, info, cluster.nodes) is None
    FilterRunner(plugin).run(state, info, cluster.nodes)
    assert plugin.reserve(state, info, node) is None
    return state


# ---- pre_filter


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        (
            [claim("data", volume="pv", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
        ),
        (
            [claim("data", meta={"deletionTimestamp": "2030-01-01T00:00:00Z"})],
            'persistentvolumeclaim "data" is being deleted',
        ),
        ([claim("data", class_name=None)], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", class_name="unknown")], "pod has unbound immediate PersistentVolumeClaims"),
        (
            [claim("data", class_name="now"), storage_class("now", volumeBindingMode="Immediate")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        # Named in advance, but the volume controller has not finished.
        ([claim("data", volumeName="pv")], "pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_pods_that_fit_nowhere(objects: list[KubeObject], reason: str) -> None:
    cluster = cluster_of(*objects)
    answer = cluster.pre_filter(cluster.plugin(VolumeBinding), make_pod(volumes=using("data")))
    assert answer == unresolvable(reason)


def test_ephemeral_claims() -> None:
    pod = make_pod("web", volumes=[{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}}])
    cluster = cluster_of()
    plugin = cluster.plugin(VolumeBinding)
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-tmp"'
    assert cluster.pre_filter(plugin, pod) == unresolvable(waiting)
    cluster.put(claim("web-tmp"))
    foreign = "PVC default/web-tmp was not created for pod default/web (pod is not owner)"
    assert cluster.pre_filter(plugin, pod) == unresolvable(foreign)
    owner = {"uid": "web", "kind": "Pod", "name": "web", "controller": True}
    cluster.put(claim("web-tmp", meta={"ownerReferences": [owner]}))
    assert cluster.pre_filter(plugin, pod) is None


def test_pods_without_claims_are_skipped() -> None:
    cluster = cluster_of()
    answer = cluster.pre_filter(cluster.plugin(VolumeBinding), make_pod(volumes=[{"name": "e"}]))
    assert answer.code is Code.SKIP


def test_a_class_without_binding_mode_is_an_error() -> None:
    cluster = cluster_of(claim("data", class_name="odd"), storage_class("odd", volumeBindingMode=None))
    with pytest.raises(PluginError, match='VolumeBindingMode not set for StorageClass "odd"'):
        cluster.pre_filter(cluster.plugin(VolumeBinding), make_pod(volumes=using("data")))


def test_the_class_annotation_wins() -> None:
    annotation = {"annotations": {"volume.beta.kubernetes.io/storage-class": "wait"}}
    cluster = cluster_of(claim("data", class_name="unknown", meta=annotation), volume("pv"))
    assert reasons(cluster, make_pod(volumes=using("data"))) == {}


def test_filter_without_pre_filter_is_an_error() -> None:
    cluster = cluster_of()
    with pytest.raises(PluginError, match="not found"):
        FilterRunner(cluster.plugin(VolumeBinding)).run(
            EngineState(), cluster.info(make_pod()), cluster.nodes
        )


# ---- bound claims


def test_bound_volumes_keep_the_pod_near() -> None:
    cluster = cluster_of(claim("data", volume="pv"), csi_volume("pv", on={HOST: ["a", "b"]}))
    assert reasons(cluster, make_pod(volumes=using("data"))) == {"c": [AFFINITY]}


def test_a_volume_without_affinity_is_everywhere() -> None:
    cluster = cluster_of(claim("data", volume="pv"), csi_volume("pv"))
    assert reasons(cluster, make_pod(volumes=using("data"))) == {}


def test_affinity_terms_are_alternatives_and_fields_are_not_looked_at() -> None:
    terms = [
        {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["a"]}]},
        {
            "matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["z-a", "z-b"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["nobody"]}],
        },
        {},
    ]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    cluster = cluster_of(claim("data", volume="pv"), csi_volume("pv", nodeAffinity=affinity))
    assert reasons(cluster, make_pod(volumes=using("data"))) == {"b": [AFFINITY]}


def test_a_node_that_lost_its_label_does_not_match_any_value() -> None:
    cluster = VolumeCluster([make_node("n", labels={HOST: "n"})], claim("data", volume="pv"))
    cluster.put(csi_volume("pv", on={HOST: ["n"]}))
    plugin, pod = cluster.plugin(VolumeBinding), make_pod(volumes=using("data"))
    assert reasons(cluster, pod, plugin) == {}
    cluster.update_node(make_node("n"))
    assert reasons(cluster, pod, plugin) == {"n": [AFFINITY]}


def test_a_volume_that_is_gone() -> None:
    """The claims are looked at in order, and the first that a node cannot have is the one it is told."""
    near = [claim("near", volume="pv"), csi_volume("pv", on={HOST: ["a"]})]
    cluster = cluster_of(*near, claim("lost", volume="gone"))
    assert reasons(cluster, make_pod(volumes=using("lost"))) == {name: [GONE] for name in "abc"}
    told = {"a": [GONE], "b": [AFFINITY], "c": [AFFINITY]}
    assert reasons(cluster, make_pod(volumes=using("near", "lost"))) == told
    assert reasons(cluster, make_pod(volumes=using("lost", "near"))) == {name: [GONE] for name in "abc"}


def test_reasons_of_bound_and_unbound_claims_combine() -> None:
    bound = [claim("near", volume="pv"), csi_volume("pv", on={HOST: ["a", "b"]})]
    cluster = cluster_of(*bound, claim("new"), volume("free", on={HOST: ["a"]}))
    told = {"b": [NO_VOLUME], "c": [AFFINITY, NO_VOLUME]}
    assert reasons(cluster, make_pod(volumes=using("near", "new"))) == told


# ---- CSI migration


def test_a_migrated_volume_uses_the_drivers_labels() -> None:
    gke = {"topology.gke.io/zone": "us-x-1"}
    nodes = [
        make_node("migrated", labels=gke),
        make_node("other", labels={"topology.gke.io/zone": "us-x-2"}),
        make_node("old", labels={ZONE: "us-x-1"}),
        make_node("unlabelled", labels=gke),
    ]
    gce = volume("pv", on={ZONE: ["us-x-1"]}, phase="Bound", gcePersistentDisk={"pdName": "d"})
    plugins = "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"
    csi = [csi_node("migrated", migrated=plugins), csi_node("other", migrated=plugins), csi_node("old")]
    cluster = VolumeCluster(nodes, claim("data", volume="pv"), gce, *csi)
    told = {"other": [AFFINITY], "unlabelled": [AFFINITY]}
    assert reasons(cluster, make_pod(volumes=using("data"))) == told


def test_a_volume_that_cannot_be_translated_is_an_error_on_nodes_that_migrated() -> None:
    ebs = volume("pv", phase="Bound", awsElasticBlockStore={"volumeID": "aws://z/nonsense"})
    cluster = cluster_of(claim("data", volume="pv"), ebs)
    pod = make_pod(volumes=using("data"))
    assert reasons(cluster, pod) == {}
    cluster.put(csi_node("a", migrated="kubernetes.io/aws-ebs"))
    answers = cluster.filter(cluster.plugin(VolumeBinding), pod)
    assert answers["b"] is None
    failure = answers["a"]
    assert failure is not None
    assert failure.code is Code.ERROR
    assert failure.message.startswith("could not translate pv: failed to translate Kubernetes ID")


# ---- volumes that exist


def chosen(cluster: VolumeCluster, node: str, *claims: str) -> dict[str, str]:
    """Which volume each claim gets on a node: claim → volume."""
    plugin = cluster.plugin(VolumeBinding)
    place(cluster, plugin, make_pod(volumes=using(*claims)), node)
    live = plugin._volumes.live(cluster.store)
    return {v.spec.claim_ref.name: name for name, v in live.items() if v.spec.claim_ref is not None}


def test_the_smallest_that_suffices() -> None:
    cluster = cluster_of(claim("data", "2Gi"), volume("s", "1Gi"), volume("l", "5Gi"), volume("m", "3Gi"))
    assert chosen(cluster, "a", "data") == {"data": "m"}


def test_small_claims_are_served_first() -> None:
    cluster = cluster_of(claim("big", "3Gi"), claim("small", "1Gi"), volume("l", "5Gi"), volume("m", "3Gi"))
    assert chosen(cluster, "a", "big", "small") == {"small": "m", "big": "l"}


def test_a_volume_serves_one_claim() -> None:
    cluster = cluster_of(claim("one"), claim("two"), volume("here", on={HOST: ["a"]}), volume("any"))
    told = {"b": [NO_VOLUME], "c": [NO_VOLUME]}
    assert reasons(cluster, make_pod(volumes=using("one", "two"))) == told


@pytest.mark.parametrize(
    ("of_claim", "of_volume", "fits"),
    [
        ({}, {}, True),
        ({"size": "1Gi"}, {"size": "1073741823"}, False),
        ({"size": None}, {"size": "1"}, True),
        ({}, {"class_name": "make"}, False),
        ({}, {"phase": "Released"}, False),
        ({}, {"phase": ""}, False),
        ({}, {"meta": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}, False),
        ({"volumeMode": "Block"}, {}, False),
        ({"volumeMode": "Filesystem"}, {}, True),
        ({"volumeMode": "Block"}, {"volumeMode": "Block"}, True),
        ({"modes": ["ReadWriteMany"]}, {}, False),
        ({"modes": ["ReadWriteOnce"]}, {"modes": ["ReadOnlyMany", "ReadWriteOnce"]}, True),
        ({"volumeAttributesClassName": "gold"}, {}, False),
        ({"volumeAttributesClassName": "gold"}, {"volumeAttributesClassName": "gold"}, True),
        ({"volumeAttributesClassName": ""}, {}, True),
        ({"selector": {"matchLabels": {"tier": "fast"}}}, {}, False),
        ({"selector": {"matchLabels": {"tier": "fast"}}}, {"meta": {"labels": {"tier": "fast"}}}, True),
        ({}, {"claim_ref": {"name": "other"}}, False),
        ({}, {"claim_ref": {"name": "data", "namespace": "other"}}, False),
        ({}, {"claim_ref": {"name": "data", "uid": "another"}}, False),
        ({}, {"claim_ref": {"name": "data", "uid": "uid-data"}}, True),
        # A volume made for the claim need not be available, nor like what the claim describes.
        ({"modes": ["ReadWriteMany"]}, {"claim_ref": {"name": "data"}, "phase": "Bound"}, True),
        ({"volumeMode": "Block"}, {"claim_ref": {"name": "data"}}, False),
        ({"size": "2Gi"}, {"claim_ref": {"name": "data"}}, False),
    ],
)
def test_what_makes_a_volume_fit(of_claim: dict[str, Any], of_volume: dict[str, Any], fits: bool) -> None:
    cluster = cluster_of(claim("data", **of_claim), volume("pv", **of_volume))
    told = reasons(cluster, make_pod(volumes=using("data")))
    assert told == ({} if fits else {name: [NO_VOLUME] for name in "abc"})


def test_a_volume_made_for_the_claim_is_taken_or_none() -> None:
    own = volume("own", "9Gi", on={HOST: ["a"]}, claim_ref={"name": "data"})
    cluster = cluster_of(claim("data"), own, volume("smaller"))
    told = {"b": [NO_VOLUME], "c": [NO_VOLUME]}  # though the smaller one is free there
    assert reasons(cluster, make_pod(volumes=using("data"))) == told
    assert chosen(cluster, "a", "data") == {"data": "own"}


# ---- volumes to be made


def test_a_class_that_provisions() -> None:
    cluster = cluster_of(claim("data", class_name="make"))
    assert reasons(cluster, make_pod(volumes=using("data"))) == {}


@pytest.mark.parametrize(
    ("topologies", "refused"),
    [
        ([], ""),
        ([{"matchLabelExpressions": [{"key": ZONE, "values": ["z-a", "z-b"]}]}], "c"),
        ([{"matchLabelExpressions": []}], "abc"),
        ([{"matchLabelExpressions": [{"key": ZONE, "values": []}]}], "abc"),
        (
            [{"matchLabelExpressions": [{"key": k, "values": [v]} for k, v in ((ZONE, "z-a"), (HOST, "b"))]}],
            "abc",
        ),
        ([{"matchLabelExpressions": [{"key": HOST, "values": [host]}]} for host in "ac"], "b"),
    ],
)
def test_allowed_topologies(topologies: list[dict[str, Any]], refused: str) -> None:
    cluster = cluster_of(claim("data", class_name="t"), storage_class("t", allowedTopologies=topologies))
    assert reasons(cluster, make_pod(volumes=using("data"))) == {name: [NO_VOLUME] for name in refused}


def driver(storage_capacity: bool | None = True) -> CSIDriver:
    spec = {} if storage_capacity is None else {"storageCapacity": storage_capacity}
    meta = {"name": "csi.example.com"}
    made = from_dict({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": meta, "spec": spec})
    assert isinstance(made, CSIDriver)
    return made


def on_host(*hosts: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": HOST, "operator": "In", "values": list(hosts)}]}


@pytest.mark.parametrize(
    ("fields", "passing"),
    [
        ({"capacity": "10Gi", "nodeTopology": on_host("a")}, "a"),
        ({"capacity": "10Gi", "nodeTopology": on_host("a", "b")}, "ab"),
        ({"capacity": "10Gi", "nodeTopology": {}}, "abc"),
        ({"capacity": "10Gi"}, ""),  # unreachable
        ({"capacity": "4Gi", "nodeTopology": {}}, ""),
        ({"capacity": "5Gi", "nodeTopology": {}}, "abc"),
        ({"capacity": "10Gi", "maximumVolumeSize": "1Gi", "nodeTopology": {}}, ""),
        ({"capacity": "1Gi", "maximumVolumeSize": "10Gi", "nodeTopology": {}}, "abc"),
        ({"nodeTopology": {}}, ""),
        ({"capacity": "10Gi", "nodeTopology": {}, "class_name": "other"}, ""),
    ],
)
def test_reported_capacity(fields: dict[str, Any], passing: str) -> None:
    fields = {"class_name": "make", **fields}
    data = claim("data", "5Gi", class_name="make")
    cluster = cluster_of(data, driver(), capacity("c", **fields))
    told = {name: [NO_ROOM] for name in "abc" if name not in passing}
    assert reasons(cluster, make_pod(volumes=using("data"))) == told


@pytest.mark.parametrize("opted", [False, None])
def test_capacity_of_drivers_that_do_not_report_it(opted: bool | None) -> None:
    cluster = cluster_of(claim("data", class_name="make"), driver(opted))
    assert reasons(cluster, make_pod(volumes=using("data"))) == {}


def test_a_claim_without_size_needs_no_room() -> None:
    cluster = cluster_of(claim("data", None, class_name="make"), driver())
    assert reasons(cluster, make_pod(volumes=using("data"))) == {}


def test_capacities_come_and_go() -> None:
    cluster = cluster_of(claim("data", class_name="make"), driver())
    plugin, pod = cluster.plugin(VolumeBinding), make_pod(volumes=using("data"))
    everywhere = {name: [NO_ROOM] for name in "abc"}
    assert reasons(cluster, pod, plugin) == everywhere
    one = capacity("c", class_name="make", capacity="1Gi", nodeTopology=on_host("a"))
    cluster.put(one)
    assert reasons(cluster, pod, plugin) == {"b": [NO_ROOM], "c": [NO_ROOM]}
    cluster.put(capacity("c", class_name="make", capacity="1Gi", nodeTopology=on_host("b")))
    assert reasons(cluster, pod, plugin) == {"a": [NO_ROOM], "c": [NO_ROOM]}
    cluster.store.remove(type(one), one.key)
    assert reasons(cluster, pod, plugin) == everywhere


def test_what_exists_is_preferred_to_what_could_be_made() -> None:
    existing = volume("pv", on={HOST: ["a"]}, class_name="make")
    cluster = cluster_of(claim("data", class_name="make"), existing, driver())
    assert reasons(cluster, make_pod(volumes=using("data"))) == {"b": [NO_ROOM], "c": [NO_ROOM]}


def test_nodes_are_told_the_first_obstacle() -> None:
    """Claims to be provisioned are looked at in the order of their sizes."""
    cluster = cluster_of(claim("small"), claim("big", "2Gi", class_name="make"), driver())
    pod = make_pod(volumes=using("big", "small"))
    assert reasons(cluster, pod) == {name: [NO_VOLUME] for name in "abc"}
    cluster.put(claim("small", "3Gi"))
    assert reasons(cluster, pod) == {name: [NO_ROOM] for name in "abc"}


def test_a_selected_node_is_kept() -> None:
    data = claim("data", class_name="make", meta={"annotations": {SELECTED: "b"}})
    free = volume("pv", class_name="make")  # would do, but the claim is being provisioned
    cluster = cluster_of(data, free)
    told = {"a": [NO_VOLUME], "c": [NO_VOLUME]}
    assert reasons(cluster, make_pod(volumes=using("data"))) == told
    cluster.put(claim("data", class_name="make", meta={"annotations": {SELECTED: "gone"}}))
    assert set(reasons(cluster, make_pod(volumes=using("data")))) == set("abc")


# ---- reserve


def seen(plugin: VolumeBinding, cluster: VolumeCluster, name: str) -> PersistentVolumeClaim:
    found = plugin._claims.get(cluster.store, name, "default")
    assert found is not None
    return found


def test_a_reserved_volume_is_not_there_for_the_next_pod() -> None:
    cluster = cluster_of(claim("one"), claim("two"), volume("pv", on={HOST: ["a"]}))
    plugin = cluster.plugin(VolumeBinding)
    state = place(cluster, plugin, make_pod("x", volumes=using("one")), "a")
    second = make_pod("y", volumes=using("two"))
    assert set(reasons(cluster, second, plugin)) == set("abc")
    # A pod with the same claim, however, is kept where the volume is.
    same = make_pod("z", volumes=using("one"))
    assert reasons(cluster, same, plugin) == {"b": [NO_VOLUME], "c": [NO_VOLUME]}
    plugin.unreserve(state, cluster.info(second), "a")
    assert reasons(cluster, second, plugin) == {"b": [NO_VOLUME], "c": [NO_VOLUME]}


def test_what_is_reserved_looks_like_a_binding_of_the_controller() -> None:
    cluster = cluster_of(claim("one"), volume("pv"))
    plugin = cluster.plugin(VolumeBinding)
    place(cluster, plugin, make_pod(volumes=using("one")), "a")
    assumed = plugin._volumes.get(cluster.store, "pv")
    assert assumed is not None
    ref = assumed.spec.claim_ref
    assert ref is not None
    assert (ref.kind, ref.namespace, ref.name, ref.uid) == (
        "PersistentVolumeClaim",
        "default",
        "one",
        "uid-one",
    )
    assert assumed.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert cluster.store.get(PersistentVolume, "pv") == volume("pv")  # the store's is untouched


def test_a_binding_that_a_person_asked_for_is_not_marked() -> None:
    cluster = cluster_of(claim("one"), volume("pv", claim_ref={"name": "one"}))
    plugin = cluster.plugin(VolumeBinding)
    place(cluster, plugin, make_pod(volumes=using("one")), "a")
    assumed = plugin._volumes.get(cluster.store, "pv")
    assert assumed is not None
    assert assumed.metadata.annotations == {}
    assert assumed.spec.claim_ref is not None
    assert assumed.spec.claim_ref.uid == "uid-one"


def test_a_claim_to_be_provisioned_keeps_later_pods_on_its_node() -> None:
    cluster = cluster_of(claim("data", class_name="make"))
    plugin = cluster.plugin(VolumeBinding)
    state = place(cluster, plugin, make_pod("x", volumes=using("data")), "b")
    assert seen(plugin, cluster, "data").metadata.annotations[SELECTED] == "b"
    second = make_pod("y", volumes=using("data"))
    assert reasons(cluster, second, plugin) == {"a": [NO_VOLUME], "c": [NO_VOLUME]}
    plugin.unreserve(state, cluster.info(second), "b")
    assert reasons(cluster, second, plugin) == {}


@pytest.mark.parametrize("versions", [("", ""), ("1", "2")])
def test_newer_objects_end_an_assumption(versions: tuple[str, str]) -> None:
    def data(version: str) -> PersistentVolumeClaim:
        return claim("data", class_name="make", meta={"resourceVersion": version})

    cluster = cluster_of(data(versions[0]))
    plugin = cluster.plugin(VolumeBinding)
    place(cluster, plugin, make_pod("x", volumes=using("data")), "b")
    if versions[0]:
        cluster.put(data(versions[0]))  # a relist of the same version
        assert SELECTED in seen(plugin, cluster, "data").metadata.annotations
    cluster.put(data(versions[1]))
    assert SELECTED not in seen(plugin, cluster, "data").metadata.annotations


def test_replicas_with_bound_claims_share_the_answer() -> None:
    """Nothing is asked again while nothing changed; what changes is noticed."""
    cluster = cluster_of(claim("data", volume="pv"), csi_volume("pv", on={HOST: ["a"]}))
    plugin, memory = cluster.plugin(VolumeBinding), {}  # type: ignore[var-annotated]
    pod = cluster.info(make_pod(volumes=using("data")))

    def ask() -> Any:
        state = EngineState(memory)
        plugin.pre_filter(state, pod, cluster.nodes)
        return FilterRunner(plugin).run(state, pod, cluster.nodes)

    first = ask()
    assert first.codes.astype(bool).tolist() == [False, True, True]
    assert ask() is first
    cluster.put(csi_volume("pv", on={HOST: ["b"]}))
    assert ask().codes.astype(bool).tolist() == [True, False, True]
    cluster.update_node(make_node("c", labels={HOST: "b"}))
    assert ask().codes.astype(bool).tolist() == [True, False, False]
    cluster.put(csi_volume("pv2", on={HOST: ["a"]}))
    ask()
    cluster.put(claim("data", volume="pv2"))
    assert ask().codes.astype(bool).tolist() == [False, True, True]


def test_what_is_assumed_for_others_ends_a_shared_answer() -> None:
    cluster = cluster_of(claim("one"), claim("two"), volume("pv"))
    plugin, memory = cluster.plugin(VolumeBinding), {}  # type: ignore[var-annotated]
    pod = cluster.info(make_pod("x", volumes=using("one")))

    def passes() -> bool:
        state = EngineState(memory)
        assert plugin.pre_filter(state, pod, cluster.nodes) is None
        return FilterRunner(plugin).run(state, pod, cluster.nodes) is None

    assert passes()
    state = place(cluster, plugin, make_pod("y", volumes=using("two")), "a")
    assert not passes()
    plugin.unreserve(state, pod, "a")
    assert passes()


def test_removing_pods_changes_nothing() -> None:
    cluster = cluster_of(claim("data", volume="pv"), csi_volume("pv", on={HOST: ["a"]}))
    there = make_pod("there", volumes=using("data"))
    cluster.assume(cluster.info(there), "b")
    plugin, pod = cluster.plugin(VolumeBinding), make_pod(volumes=using("data"))
    assert cluster.without(plugin, pod, "there") == cluster.filter(plugin, pod)


def test_score_is_skipped() -> None:
    cluster = cluster_of()
    assert cluster.score(cluster.plugin(VolumeBinding), make_pod()) is None
    state = EngineState()
    scores = cluster.plugin(VolumeBinding).score_nodes(state, cluster.info(make_pod()), cluster.nodes)
    assert scores.tolist() == [0, 0, 0]


# ---- queueing hints

CHANGES = (Action.ADD, Action.UPDATE)


def event(resource: str, action: Action) -> ClusterEvent:
    return ClusterEvent(resource, action)


def test_hint_for_storage_classes() -> None:
    plugin, pod = cluster_of().plugin(VolumeBinding), make_pod(volumes=using("data"))
    term = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    old, new = storage_class("c"), storage_class("c", allowedTopologies=term)
    assert hint(plugin, event(Resource.STORAGE_CLASS, Action.ADD), pod, None, old)
    assert hint(plugin, event(Resource.STORAGE_CLASS, Action.UPDATE), pod, old, new)
    assert not hint(plugin, event(Resource.STORAGE_CLASS, Action.UPDATE), pod, old, storage_class("c", "x"))


def test_hint_for_claims_and_volumes() -> None:
    plugin, pod = cluster_of().plugin(VolumeBinding), make_pod(volumes=using("data"))
    ephemeral = make_pod("web", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}])
    for action in CHANGES:
        of_claim = event(Resource.PERSISTENT_VOLUME_CLAIM, action)
        assert hint(plugin, of_claim, pod, None, claim("data"))
        assert hint(plugin, of_claim, ephemeral, None, claim("web-v"))
        assert not hint(plugin, of_claim, pod, None, claim("other"))
        assert not hint(plugin, of_claim, pod, None, claim("data", meta={"namespace": "x"}))
        assert hint(plugin, event(Resource.PERSISTENT_VOLUME, action), pod, None, volume("pv"))
    for action in (Action.ADD, Action.UPDATE_NODE_LABEL):
        assert hint(plugin, event(Resource.NODE, action), pod, None, make_node("n"))


def test_hint_for_csi_nodes_and_drivers() -> None:
    plugin = cluster_of().plugin(VolumeBinding)
    pod = make_pod(volumes=[{"name": "v", "csi": {"driver": "csi.example.com"}}])
    update = event(Resource.CSI_NODE, Action.UPDATE)
    assert hint(plugin, event(Resource.CSI_NODE, Action.ADD), pod, None, csi_node("n"))
    assert hint(plugin, update, pod, csi_node("n"), csi_node("n", migrated="kubernetes.io/gce-pd"))
    assert not hint(plugin, update, pod, csi_node("n"), csi_node("n", {"d": 1}))
    of_driver = event(Resource.CSI_DRIVER, Action.UPDATE)
    assert hint(plugin, of_driver, pod, driver(True), driver(False))
    assert hint(plugin, of_driver, pod, driver(True), driver(None))
    assert not hint(plugin, of_driver, pod, driver(False), driver(True))
    assert not hint(plugin, of_driver, make_pod(volumes=using("data")), driver(True), driver(False))


@pytest.mark.parametrize(
    ("old", "new", "worth"),
    [
        ({"capacity": "1Gi"}, {"capacity": "2Gi"}, True),
        ({"capacity": "2Gi"}, {"capacity": "2048Mi"}, False),
        ({"capacity": "2Gi"}, {"capacity": "1Gi"}, False),
        ({}, {"capacity": "0"}, True),
        ({"capacity": "1Gi"}, {}, False),
        (
            {"capacity": "1Gi", "maximumVolumeSize": "1Gi"},
            {"capacity": "9Gi", "maximumVolumeSize": "1Gi"},
            False,
        ),
    ],
)
def test_hint_for_capacities(old: dict[str, str], new: dict[str, str], worth: bool) -> None:
    plugin, pod = cluster_of().plugin(VolumeBinding), make_pod(volumes=using("data"))
    update = event(Resource.CSI_STORAGE_CAPACITY, Action.UPDATE)
    assert hint(plugin, update, pod, capacity("c", **old), capacity("c", **new)) is worth
    assert hint(plugin, event(Resource.CSI_STORAGE_CAPACITY, Action.ADD), pod, None, capacity("c"))


def test_statuses_are_shared() -> None:
    """Rows with the same conflicts have one status object: the framework compares codes, not texts."""
    cluster = cluster_of(claim("data"))
    answers = list(cluster.filter(cluster.plugin(VolumeBinding), make_pod(volumes=using("data"))).values())
    assert all(isinstance(status, Status) for status in answers)
    assert len(set(map(id, answers))) == 1


def test_objects_are_values() -> None:
    """Nothing that the plugin does changes an object that it was given."""
    objects: list[KubeObject] = [claim("one"), claim("two", class_name="make"), volume("pv")]
    before = [msgspec.json.encode(obj) for obj in objects]
    cluster = cluster_of(*objects)
    place(cluster, cluster.plugin(VolumeBinding), make_pod(volumes=using("one", "two")), "a")
    assert [msgspec.json.encode(obj) for obj in objects] == before
