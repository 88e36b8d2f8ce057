"""Would another node do, if it were like an existing one?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mooring.api.objects import NodeSelectorTerm, Pod
from mooring.api.resources import CPU, MEMORY
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.explain import words
from mooring.explain.explanation import Change
from mooring.explain.refusing import Rows
from mooring.explain.rehearsal import Rehearsal
from mooring.framework.pod import PodInfo
from mooring.plugins.pod_topology_spread.constraints import HOSTNAME, ZONE, own_constraints
from mooring.runtime.engine_nodes import EngineNode
from mooring.runtime.filtering import Answer
from mooring.runtime.runners import PluginError

MOST_KINDS = 32  # of nodes that are tried
_REGION = "topology.kubernetes.io/region"
ON_EVERY_NODE = ("DaemonSet", "Node")  # who runs pods of theirs on a new node, too


def fresh_node(rehearsal: Rehearsal) -> Iterator[Change]:
    """The kinds of node of which an empty one would take the pod.

    An existing node represents a new one like it, without its pods. Pods that a new node would have too, and
    those that count in its zone, stay; so a "yes" is certain, and a "no" may be too strict.
    """
    choice = rehearsal.choice
    if (
        choice.diagnosis.filtering is None
        or choice.diagnosis.allowed is not None
        or _bound_to_names(rehearsal)
    ):
        return
    rows = _kinds(rehearsal)
    if not len(rows):
        return
    removable = [_gone_on_a_new_one(rehearsal.nodes[row], rehearsal.pod) for row in rows.tolist()]
    view = rehearsal.nodes.what_if(rows, removable, [()] * len(rows))
    view.set_all_present(np.ones(view.present.shape, np.bool_), False)
    try:
        with rehearsal.scheduler.in_rehearsal():
            answer = Answer(rehearsal.profile.filters, choice.state, rehearsal.pod, view)
    except PluginError:
        return
    passed = rows[answer.passed]
    if len(passed):
        model = rehearsal.nodes[int(passed[0])]
        text = f"add a node like {model.name} ({_described(model)})"
        yield Change(kind="newNode", text=text, nodes=1, examples=rehearsal.refusing.some(passed))


def _kinds(rehearsal: Rehearsal) -> Rows:
    """A node of each size and zone that refuses the pod only for the pods that are there; the emptiest."""
    nodes = rehearsal.nodes
    rows = np.flatnonzero(~rehearsal.refusing.by_node)
    order = rows[np.argsort(nodes.pod_count[rows], kind="stable")]
    facts = np.vstack((nodes.allocatable.matrix, nodes.allowed_pods, nodes.label(ZONE).ids, nodes.taints.ids))
    _, first = np.unique(facts[:, order], axis=1, return_index=True)
    kinds: Rows = order[np.sort(first)][:MOST_KINDS]
    return kinds


def _gone_on_a_new_one(node: EngineNode, pod: PodInfo) -> list[PodInfo]:
    return [
        other
        for other in node.pods
        if (owner := other.shape.controller) is None or owner.kind not in ON_EVERY_NODE
        if not _counts_elsewhere(other, pod)
    ]


def _counts_elsewhere(other: PodInfo, pod: PodInfo) -> bool:
    """Whether a pod matters to this one beyond its node: through affinity or spread over larger domains."""
    spoken_of = any(
        term.required and term.topology_key != HOSTNAME and term.selector.matches(other.labels)
        for term in pod.shape.affinity_terms
    )
    speaks = any(
        term.required and term.topology_key != HOSTNAME and term.selector.matches(pod.labels)
        for term in other.shape.affinity_terms
    )
    spread = other.namespace == pod.namespace and any(
        constraint.topology_key != HOSTNAME and constraint.selector.matches(other.labels)
        for constraint in own_constraints(pod.shape).hard
    )
    return spoken_of or speaks or spread


def _bound_to_names(rehearsal: Rehearsal) -> bool:
    """Whether the pod, or a volume of it, asks for nodes by what no new node would have."""
    pod = rehearsal.pod.pod
    if any(
        t.required and not t.anti and t.topology_key == HOSTNAME for t in rehearsal.pod.shape.affinity_terms
    ):
        return True
    return any(
        expression.key not in (ZONE, _REGION) and (expression.key == HOSTNAME or of_volume)
        for term, of_volume in _node_terms(rehearsal, pod)
        for expression in (*term.match_expressions, *term.match_fields)
    ) or HOSTNAME in (pod.spec.node_selector or {})


def _node_terms(rehearsal: Rehearsal, pod: Pod) -> Iterator[tuple[NodeSelectorTerm, bool]]:
    affinity = pod.spec.affinity
    if (
        affinity is not None
        and affinity.node_affinity is not None
        and affinity.node_affinity.required is not None
    ):
        yield from ((term, False) for term in affinity.node_affinity.required.node_selector_terms)
    store = rehearsal.scheduler.store
    for key in rehearsal.pod.shape.claims:
        namespace, _, name = key.partition("/")
        claim = store.get(PersistentVolumeClaim, name, namespace)
        volume = None if claim is None else store.get(PersistentVolume, claim.spec.volume_name)
        if volume is not None and volume.spec.node_affinity is not None:
            required = volume.spec.node_affinity.required
            yield from ((term, True) for term in (() if required is None else required.node_selector_terms))


def _described(node: EngineNode) -> str:
    offered = [f"{words.amount(name, node.allocatable[name])} {name}" for name in (CPU, MEMORY)]
    zone = node.labels.get(ZONE)
    return ", ".join([*offered, zone] if zone else offered)
