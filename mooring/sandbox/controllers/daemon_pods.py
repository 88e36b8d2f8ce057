"""The pods of DaemonSets: on which nodes they belong, and how each is made for its node."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.kinds import DAEMON_SETS
from mooring.api.meta import Struct, Tree
from mooring.api.objects import Affinity, Node, Pod, Toleration
from mooring.api.selectors import from_map, node_selector_matches
from mooring.api.tolerations import NO_EXECUTE, NO_SCHEDULE, find_untolerated
from mooring.api.workloads import DaemonSet
from mooring.sandbox.controllers.owning import controller_reference
from mooring.sandbox.controllers.templates import pod_of

HASH: Final = "controller-revision-hash"
GENERATION: Final = "pod-template-generation"
_GENERATION_OF_SET: Final = "deprecated.daemonset.template.generation"
_TOLERATED: Final = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
"""What ails a node does not keep daemons off it, nor drive them away."""


class _Placing(Struct):
    """The part of a pod's spec that says where it may be."""

    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    host_network: bool = False


class Placement:
    """Which nodes the pods of a set belong on."""

    def __init__(self, set: DaemonSet) -> None:
        spec = set.spec.template.get("spec") or {}
        placing = msgspec.convert({**spec, "tolerations": tolerations(spec)}, _Placing)
        affinity = placing.affinity.node_affinity if placing.affinity is not None else None
        self._name = placing.node_name
        self._selector = from_map(placing.node_selector)
        self._required = affinity.required if affinity is not None else None
        self._tolerations = placing.tolerations

    def wants(self, node: Node) -> tuple[bool, bool]:
        """Whether there is to be a pod on a node, and whether one that is there may stay."""
        labels, taints = node.metadata.labels, node.spec.taints
        if self._name not in ("", node.name) or not self._selector.matches(labels):
            return False, False
        if self._required is not None and not node_selector_matches(self._required, labels, node.name):
            return False, False
        if find_untolerated(taints, self._tolerations) is None:
            return True, True
        return False, find_untolerated(taints, self._tolerations, (NO_EXECUTE,)) is None


def tolerations(spec: Tree) -> list[Tree]:
    """A pod's own tolerations, and those that all daemons have."""
    tolerations = list(spec.get("tolerations") or [])
    tolerated = [*_TOLERATED, *([("network-unavailable", NO_SCHEDULE)] if spec.get("hostNetwork") else [])]
    for name, effect in tolerated:
        toleration = {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        tolerations = [each for each in tolerations if not toleration.items() <= each.items()]
        tolerations.append(toleration)
    return tolerations


class Moulds:
    """New pods of a set, each for a node: the scheduler binds it to no other."""

    def __init__(self, set: DaemonSet, hash: str) -> None:
        template = set.spec.template
        spec = template.get("spec") or {}
        self._template = {**template, "spec": {**spec, "tolerations": tolerations(spec)}}
        self._labels = {HASH: hash}
        if generation := set.metadata.annotations.get(_GENERATION_OF_SET):
            self._labels[GENERATION] = generation
        self._owner = set.name
        self._reference = controller_reference(DAEMON_SETS, set)

    def body(self, node: str) -> Tree:
        body = pod_of(self._template, self._owner, self._reference)
        labels = body["metadata"].get("labels") or {}
        body["metadata"]["labels"] = {**labels, **self._labels}
        affinity = body["spec"].get("affinity") or {}
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        on_node = {
            **(affinity.get("nodeAffinity") or {}),
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        }
        body["spec"] = {**body["spec"], "affinity": {**affinity, "nodeAffinity": on_node}}
        return body


def target_of(pod: Pod) -> str:
    """Return the node that a pod is on or was created for; empty if unknown."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In":
                return field.values[0] if len(field.values) == 1 else ""
    return ""


def is_updated(set: DaemonSet, pod: Pod, hash: str) -> bool:
    """Whether a pod was made of the set's template as it is now."""
    labels = pod.metadata.labels
    generation = set.metadata.annotations.get(_GENERATION_OF_SET)
    return labels.get(HASH) == hash or (generation is not None and labels.get(GENERATION) == generation)


def by_age(pod: Pod) -> tuple[bool, str, str]:
    """Bound pods first, then the older ones."""
    return not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.name
