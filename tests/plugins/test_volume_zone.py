"""VolumeZone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mooring.api.meta import KubeObject
from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.status import Code, Status, unresolvable
from mooring.plugins.volume_zone import VolumeZone
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner
from tests.plugins.plugin_kit import hint, make_node, make_pod
from tests.plugins.volume_kit import VolumeCluster, claim, csi_volume, storage_class, using

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ELSEWHERE = unresolvable("node(s) had no available volume zone")


def fits(volume_labels: Mapping[str, str], node_labels: Mapping[str, str]) -> Status | None:
    cluster = VolumeCluster(
        [make_node("n", labels=node_labels)],
        claim("data", volume="pv"),
        csi_volume("pv", meta={"labels": dict(volume_labels)}),
    )
    plugin = cluster.plugin(VolumeZone)
    return cluster.filter(plugin, make_pod(volumes=using("data")))["n"]


@pytest.mark.parametrize(
    ("volume_labels", "node_labels", "passes"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__b"}, {ZONE: "c"}, False),
        ({ZONE: " a __ b "}, {ZONE: "b"}, True),
        ({ZONE: "a__"}, {ZONE: "c"}, True),  # a label with an empty part says nothing
        ({ZONE: ""}, {ZONE: "c"}, True),
        ({ZONE: "a"}, {}, True),  # a node without any of the labels is of a cluster of one zone
        ({ZONE: "a"}, {"rack": "1"}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, True),  # old label of the volume, new one of the node
        ({BETA_ZONE: "a"}, {BETA_ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, False),  # but not the other way round
        ({BETA_REGION: "r"}, {REGION: "r"}, True),
        ({BETA_REGION: "r"}, {ZONE: "a"}, False),
    ],
)
def test_labels(volume_labels: Mapping[str, str], node_labels: Mapping[str, str], passes: bool) -> None:
    assert fits(volume_labels, node_labels) == (None if passes else ELSEWHERE)


def test_every_volume_must_be_near() -> None:
    cluster = VolumeCluster(
        [make_node(zone, labels={ZONE: zone}) for zone in "abc"],
        *(claim(name, volume=f"pv-{name}") for name in ("one", "two")),
        csi_volume("pv-one", meta={"labels": {ZONE: "a__b"}}),
        csi_volume("pv-two", meta={"labels": {ZONE: "b__c"}}),
    )
    answers = cluster.filter(cluster.plugin(VolumeZone), make_pod(volumes=using("one", "two")))
    assert answers == {"a": ELSEWHERE, "b": None, "c": ELSEWHERE}


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim("data", volume="gone")], 'persistentvolume "gone" not found'),
        (
            [claim("data", class_name=None)],
            "PersistentVolumeClaim had no pv name and storageClass name",
        ),
        ([claim("data")], 'storageclass.storage.k8s.io "wait" not found'),
        (
            [claim("data"), storage_class("wait", volumeBindingMode=None)],
            'VolumeBindingMode not set for StorageClass "wait"',
        ),
        (
            [claim("data"), storage_class("wait", volumeBindingMode="Immediate")],
            "PersistentVolume had no name",
        ),
    ],
)
def test_claims_that_no_node_can_serve(objects: list[KubeObject], reason: str) -> None:
    cluster = VolumeCluster([make_node("n")], *objects)
    plugin, pod = cluster.plugin(VolumeZone), make_pod(volumes=using("data"))
    assert cluster.pre_filter(plugin, pod) == unresolvable(reason)
    # Where its pre_filter is disabled, the filter finds out itself.
    verdicts = FilterRunner(plugin).run(EngineState(), cluster.info(pod), cluster.nodes)
    assert verdicts is not None
    assert [verdicts.statuses[code] for code in verdicts.codes.tolist()] == [unresolvable(reason)]


def test_a_claim_needs_a_name() -> None:
    cluster = VolumeCluster([make_node("n")])
    answer = cluster.pre_filter(cluster.plugin(VolumeZone), make_pod(volumes=using("")))
    assert answer == unresolvable("PersistentVolumeClaim had no name")


def test_skips_without_labelled_volumes() -> None:
    cluster = VolumeCluster(
        [make_node("n", labels={ZONE: "a"})],
        storage_class("wait"),
        claim("later"),
        claim("data", volume="pv"),
        csi_volume("pv"),
    )
    plugin = cluster.plugin(VolumeZone)
    ephemeral = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]
    for volumes in ([], using("later", "data"), ephemeral):
        assert cluster.pre_filter(plugin, make_pod(volumes=volumes)).code is Code.SKIP


def test_answers_follow_the_objects() -> None:
    """What is remembered for a shape does not outlive the labels that it followed from."""
    cluster = VolumeCluster(
        [make_node("n", labels={ZONE: "a"})],
        claim("data", volume="pv"),
        csi_volume("pv", meta={"labels": {ZONE: "b"}}),
    )
    plugin, memory = cluster.plugin(VolumeZone), {}  # type: ignore[var-annotated]
    pod = cluster.info(make_pod(volumes=using("data")))

    def refused() -> bool:
        state = EngineState(memory)
        assert plugin.pre_filter(state, pod, cluster.nodes) is None
        return FilterRunner(plugin).run(state, pod, cluster.nodes) is not None

    assert refused()
    cluster.update_node(make_node("n", labels={ZONE: "b"}))
    assert not refused()
    cluster.put(csi_volume("pv", meta={"labels": {ZONE: "a"}}))
    assert refused()


# ---- queueing hints


def test_hints() -> None:
    plugin, pod = VolumeCluster([]).plugin(VolumeZone), make_pod(volumes=using("data"))
    new_class = ClusterEvent(Resource.STORAGE_CLASS, Action.ADD)
    assert hint(plugin, new_class, pod, None, storage_class("wait"))
    assert not hint(plugin, new_class, pod, None, storage_class("now", volumeBindingMode="Immediate"))
    for action in (Action.ADD, Action.UPDATE):
        event = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, action)
        assert hint(plugin, event, pod, None, claim("data"))
        assert not hint(plugin, event, pod, None, claim("other"))
        assert not hint(plugin, event, pod, None, claim("data", meta={"namespace": "other"}))
    node_label = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
    assert hint(plugin, node_label, pod, make_node("n"), make_node("n"))


def test_hint_for_volumes() -> None:
    plugin, pod = VolumeCluster([]).plugin(VolumeZone), make_pod(volumes=using("data"))
    plain, labelled = csi_volume("pv"), csi_volume("pv", meta={"labels": {ZONE: "a__b"}})
    reordered = csi_volume("pv", meta={"labels": {ZONE: "b__a", "other": "x"}})
    add = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD)
    update = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.UPDATE)
    assert hint(plugin, add, pod, None, plain)
    assert hint(plugin, update, pod, plain, labelled)
    assert not hint(plugin, update, pod, labelled, reordered)
