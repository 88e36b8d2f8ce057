"""VolumeBinding's search over all nodes at once, against the same search written for one node at a time."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import quantity
from mooring.api.objects import Node
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.framework.status import Status
from mooring.plugins.volume_binding import static_volumes
from mooring.plugins.volume_binding.volume_binding import VolumeBinding
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner
from tests.calls import count_lines
from tests.plugins.plugin_kit import make_node, make_pod
from tests.plugins.volume_kit import HOST, ZONE, VolumeCluster, claim, storage_class, using, volume

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"

places = st.none() | st.one_of(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=2).map(lambda hosts: {HOST: hosts}),
    st.sampled_from("xy").map(lambda zone: {ZONE: [zone]}),
    st.just({HOST: ["a", "b"], ZONE: ["y"]}),
)
sizes = st.sampled_from(["1Gi", "2Gi", "3Gi"])


@st.composite
def volumes(draw: st.DrawFn, claims: int) -> list[PersistentVolume]:
    found = []
    for i in range(draw(st.integers(0, 6))):
        owner = draw(st.none() | st.integers(0, claims - 1))
        ref = (
            None
            if owner is None
            else {"name": f"c{owner}", "uid": draw(st.sampled_from(["", f"uid-c{owner}"]))}
        )
        phase = draw(st.sampled_from(["Available", "Available", "Released"]))
        found.append(volume(f"pv{i}", draw(sizes), on=draw(places), claim_ref=ref, phase=phase))
    return found


@st.composite
def claims(draw: st.DrawFn) -> list[PersistentVolumeClaim]:
    found = []
    for i in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["wait", "wait", "make", "bound"]))
        if kind == "bound":
            found.append(claim(f"c{i}", volume=draw(st.sampled_from(["pv0", "pv1"]))))
        else:
            found.append(claim(f"c{i}", draw(sizes), class_name=kind))
    return found


# ---- the search for one node


def usable(pv: PersistentVolume, node: Node) -> bool:
    if pv.spec.node_affinity is None or pv.spec.node_affinity.required is None:
        return True
    labels = node.metadata.labels
    return any(
        all(labels.get(e.key) in e.values for e in term.match_expressions)
        for term in pv.spec.node_affinity.required.node_selector_terms
    )


def size(raw: object) -> int:
    return quantity.parse(str(raw))


def match(pvc: PersistentVolumeClaim, pvs: Sequence[PersistentVolume], node: Node) -> PersistentVolume | None:
    wanted = size(pvc.spec.resources.requests["storage"])
    best: PersistentVolume | None = None
    for pv in pvs:
        ref = pv.spec.claim_ref
        mine = ref is not None and ref.name == pvc.name
        if (ref is not None and not mine) or size(pv.spec.capacity["storage"]) < wanted:
            continue
        if pv.spec.storage_class_name != pvc.spec.storage_class_name:
            continue
        if mine:
            return pv if usable(pv, node) else None
        free = pv.status.phase == "Available" and usable(pv, node)
        if free and (best is None or size(pv.spec.capacity["storage"]) < size(best.spec.capacity["storage"])):
            best = pv
    return best


def search(
    node: Node, pvcs: Sequence[PersistentVolumeClaim], pvs: Sequence[PersistentVolume]
) -> tuple[list[str], dict[str, str]]:
    """Why the node will not do, and which volume each claim would get there."""
    problems: list[str] = []
    for pvc in pvcs:
        if pvc.spec.volume_name:
            pv = next((pv for pv in pvs if pv.name == pvc.spec.volume_name), None)
            if pv is None:
                problems.append("gone")
                break
            if not usable(pv, node):
                problems.append(AFFINITY)
                break
    left, found, missing = list(pvs), {}, []
    delayed = [pvc for pvc in pvcs if not pvc.spec.volume_name]
    for pvc in sorted(delayed, key=lambda c: size(c.spec.resources.requests["storage"])):
        pv = match(pvc, left, node)
        if pv is None:
            missing.append(pvc)
        else:
            left.remove(pv)
            found[pvc.name] = pv.name
    if any(pvc.spec.storage_class_name == "wait" for pvc in missing):
        problems.append(NO_VOLUME)
    return problems, found


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_search_over_all_nodes_is_the_search_on_each(data: st.DataObject) -> None:
    pvcs = data.draw(claims())
    pvs = data.draw(volumes(len(pvcs)))
    nodes = [
        make_node(host, labels={HOST: host, ZONE: zone}) for host, zone in zip("abcd", "xyxy", strict=True)
    ]
    classes = [storage_class("wait", "kubernetes.io/no-provisioner"), storage_class("make")]
    cluster = VolumeCluster(nodes, *classes, *pvcs, *pvs)
    pod = make_pod(volumes=using(*(pvc.name for pvc in pvcs)))
    answers = cluster.filter(cluster.plugin(VolumeBinding), pod)
    for node in nodes:
        problems, found = search(node, pvcs, pvs)
        status = answers[node.name]
        told = [] if status is None else list(status.reasons)
        assert [AFFINITY in told, NO_VOLUME in told] == [AFFINITY in problems, NO_VOLUME in problems]
        assert (status is None) == (not problems)
        if status is None:
            assert reserved(cluster, pvcs, node.name) == found


def reserved(cluster: VolumeCluster, pvcs: Sequence[PersistentVolumeClaim], node: str) -> dict[str, str]:
    """Which volume each claim gets when the pod is placed on a node."""
    plugin, state = cluster.plugin(VolumeBinding), EngineState()
    pod = cluster.info(make_pod(volumes=using(*(pvc.name for pvc in pvcs))))
    plugin.pre_filter(state, pod, cluster.nodes)
    FilterRunner(plugin).run(state, pod, cluster.nodes)
    assert plugin.reserve(state, pod, node) is None
    assumed = plugin._volumes.live(cluster.store).values()
    found = {pv.spec.claim_ref.name: pv.name for pv in assumed if pv.spec.claim_ref is not None}
    # A volume that refers to its claim completely needs nothing to be assumed.
    for pv in cluster.store.list(PersistentVolume):
        ref = pv.spec.claim_ref
        if ref is not None and ref.uid and ref.name not in found:
            pvc = next(pvc for pvc in pvcs if pvc.name == ref.name)
            node_object = cluster.node(node)
            assert node_object is not None
            if not pvc.spec.volume_name and match(pvc, [pv], node_object.node) is pv:
                found[ref.name] = pv.name
    return found


def test_the_work_is_quadratic_in_the_claims_at_most() -> None:
    def lines(n: int) -> int:
        pairs = [(volume(f"pv{i}", "1Gi"), claim(f"c{i}")) for i in range(n)]
        objects = [
            storage_class("wait", "kubernetes.io/no-provisioner"),
            *(o for pair in pairs for o in pair),
        ]
        cluster = VolumeCluster([make_node("a")], *objects)
        plugin, pod = cluster.plugin(VolumeBinding), make_pod(volumes=using(*(f"c{i}" for i in range(n))))
        answers: dict[str, Status | None] = {}
        counted = count_lines(lambda: answers.update(cluster.filter(plugin, pod)), static_volumes.__file__)
        assert answers == {"a": None}
        return counted

    assert lines(60) / lines(30) < 4.5
