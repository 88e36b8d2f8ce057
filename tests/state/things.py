"""Hypothesis strategies for the other objects that plugins read, as manifests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.state.objects import HOST, ZONE, manifest
from tests.strategies import CLAIMS, DISK, DRIVER, NODE_NAMES, VOLUMES, among, selectors, sometimes, up_to

Manifest = dict[str, Any]

_namespaced = st.sampled_from(["default", "default", "other"])
_quantities = st.sampled_from(["1Gi", "5Gi"])
_teams = st.sampled_from([{}, {"team": "x"}])
_service_selectors = st.sampled_from([{"app": "a"}, {"app": "b"}, {"tier": "x"}, {}])
_budget_selectors = st.one_of(st.just({"matchLabels": {"app": "a"}}), selectors)
_topologies = sometimes(st.just([{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "c"]}]}]), [])
_volume_labels = st.sampled_from([{}, {}, {ZONE: "a"}, {ZONE: "a__b"}])
_STORAGE = "storage.k8s.io/v1"


@st.composite
def namespaces(draw: st.DrawFn) -> Manifest:
    team = draw(_teams)
    return manifest("Namespace", draw(_namespaced), metadata={"labels": team})


@st.composite
def services(draw: st.DrawFn) -> Manifest:
    selector = draw(_service_selectors)
    name = draw(among("s0", "s1"))
    return manifest("Service", name, draw(_namespaced), spec={"selector": selector})


@st.composite
def controllers(draw: st.DrawFn) -> Manifest:
    if draw(st.booleans()):
        spec = {"selector": draw(selectors)}
        return manifest("ReplicaSet", "r0", draw(_namespaced), group="apps/v1", spec=spec)
    return manifest("ReplicationController", "r0", draw(_namespaced), spec={"selector": {"app": "a"}})


@st.composite
def budgets(draw: st.DrawFn) -> Manifest:
    return manifest(
        "PodDisruptionBudget",
        draw(among("b0", "b1")),
        "default",
        group="policy/v1",
        spec={"selector": draw(_budget_selectors)},
        status={"disruptionsAllowed": draw(up_to(2))},
    )


# ---- storage


@st.composite
def storage_classes(draw: st.DrawFn, name: str = "") -> Manifest:
    name = name or draw(among("wait", "wait", "wait", "now"))
    return manifest(
        "StorageClass",
        name,
        group=_STORAGE,
        provisioner=draw(among(DRIVER, DRIVER, "kubernetes.io/no-provisioner")),
        volumeBindingMode="WaitForFirstConsumer" if name == "wait" else "Immediate",
        allowedTopologies=draw(_topologies),
    )


@st.composite
def claims(draw: st.DrawFn, number: int | None = None) -> Manifest:
    """The claim c0 is bound to the volume v0 and so on, if it is."""
    number = draw(up_to(len(CLAIMS) - 1)) if number is None else number
    bound = draw(st.booleans())
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    if not bound and draw(up_to(5)) == 5:
        annotations["volume.kubernetes.io/selected-node"] = draw(among(*NODE_NAMES))
    return manifest(
        "PersistentVolumeClaim",
        CLAIMS[number],
        draw(_namespaced),
        metadata={"annotations": annotations},
        spec={
            "accessModes": ["ReadWriteOncePod" if draw(up_to(5)) == 5 else "ReadWriteOnce"],
            "resources": {"requests": {"storage": draw(_quantities)}},
            "storageClassName": "now" if draw(up_to(7)) == 7 else "wait",
            "volumeName": VOLUMES[number] if bound else "",
        },
        status={"phase": "Pending" if not bound else "Lost" if draw(up_to(7)) == 7 else "Bound"},
    )


@st.composite
def ephemeral_claims(draw: st.DrawFn) -> Manifest:
    """The claim of a generic ephemeral volume, made for the pod or for somebody else."""
    pod = draw(among("p1", "p2", "p3"))
    uid = draw(among(pod, "x"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
    spec = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "wait"}
    metadata = {"ownerReferences": [owner]}
    return manifest("PersistentVolumeClaim", f"{pod}-vol0", "default", metadata=metadata, spec=spec)


@st.composite
def persistent_volumes(draw: st.DrawFn, number: int | None = None) -> Manifest:
    name = VOLUMES[draw(up_to(len(VOLUMES) - 1)) if number is None else number]
    spec: Manifest = {
        "capacity": {"storage": draw(_quantities)},
        "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
        "storageClassName": "wait",
    }
    affine = draw(among(None, (ZONE, "a"), (ZONE, "b"), (HOST, "n0"), (DISK, "ssd")))
    if affine is not None:
        expression = {"key": affine[0], "operator": "In", "values": [affine[1]]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if draw(st.booleans()):
        spec["csi"] = {"driver": DRIVER, "volumeHandle": f"handle-{name}"}
    if draw(up_to(4)) == 4:
        spec["claimRef"] = {"namespace": "default", "name": "c0", "uid": "PersistentVolumeClaim-default-c0"}
    metadata = {"labels": draw(_volume_labels)}
    return manifest("PersistentVolume", name, metadata=metadata, spec=spec, status={"phase": "Available"})


@st.composite
def csi_nodes(draw: st.DrawFn) -> Manifest:
    drivers = [{"name": DRIVER, "nodeID": "x", "allocatable": {"count": draw(up_to(2))}}]
    return manifest("CSINode", draw(among(*NODE_NAMES)), group=_STORAGE, spec={"drivers": drivers})


@st.composite
def attachments(draw: st.DrawFn) -> Manifest:
    spec = {
        "attacher": DRIVER,
        "nodeName": draw(among(*NODE_NAMES)),
        "source": {"persistentVolumeName": draw(among(*VOLUMES))},
    }
    return manifest("VolumeAttachment", draw(among("t0", "t1")), group=_STORAGE, spec=spec)


@st.composite
def capacities(draw: st.DrawFn) -> Manifest:
    if draw(st.booleans()):
        return manifest("CSIDriver", DRIVER, group=_STORAGE, spec={"storageCapacity": draw(st.booleans())})
    topology = {"matchLabels": {ZONE: draw(among("a", "b"))}}
    fields = {"storageClassName": "wait", "capacity": draw(_quantities), "nodeTopology": topology}
    name = draw(among("k0", "k1"))
    return manifest("CSIStorageCapacity", name, "default", group=_STORAGE, **fields)


grouping = st.one_of(services(), controllers())
storage = st.one_of(
    storage_classes(),
    claims(),
    persistent_volumes(),
    csi_nodes(),
    attachments(),
    capacities(),
    ephemeral_claims(),
)
things = st.one_of(namespaces(), grouping, budgets(), storage)


_enough = [
    storage_classes("wait"),
    *(make(i) for i in range(len(CLAIMS)) for make in (claims, persistent_volumes)),
]
_some_csi_nodes = st.lists(csi_nodes(), max_size=3)


@st.composite
def storage_to_begin_with(draw: st.DrawFn) -> list[Manifest]:
    """Enough of it for pods to find something."""
    return [*(draw(one) for one in _enough), *draw(_some_csi_nodes)]
