"""What a table or a view of it says, as plain values by node name: rows may be in any order.

Every column is read in the ways that plugins read it, so that equal facts mean equal answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mooring.api.meta import LabelSelector, LabelSelectorRequirement
from mooring.api.selectors import compile_selector
from mooring.framework.nodes import Ids, PodPredicate
from mooring.framework.pod import Shape
from mooring.plugins.node_ports import HostPorts, PortConflict
from mooring.plugins.predicates import PodsSelected
from mooring.runtime.engine_nodes import EngineNodes
from mooring.state.cluster import ClusterState
from tests.state.objects import HOST, ZONE
from tests.strategies import CLAIMS, DISK, IMAGES, NAMESPACES

KEYS = (ZONE, HOST, DISK, "rank")


@dataclass(frozen=True)
class HasTerms:
    """Pods with affinity terms about a label, so that what is read deep in the spec counts too."""

    topology_key: str
    count_terminating: bool

    def matches(self, shape: Shape) -> bool:
        return any(term.topology_key == self.topology_key for term in shape.affinity_terms)


def _app(value: str, count_terminating: bool) -> PodsSelected:
    selector = compile_selector(LabelSelector(match_labels={"app": value}))
    return PodsSelected(frozenset(("default",)), selector, count_terminating)


_untiered = compile_selector(
    LabelSelector(match_expressions=[LabelSelectorRequirement(key="tier", operator="DoesNotExist")])
)
PREDICATES: tuple[PodPredicate, ...] = (
    _app("a", True),
    _app("a", False),
    _app("b", False),
    PodsSelected(None, _untiered),
    PortConflict(HostPorts(frozenset({("0.0.0.0", "TCP", 80)}), frozenset({("TCP", 80)}))),
    HasTerms(ZONE, True),
    HasTerms(HOST, False),
)


def facts(nodes: EngineNodes, predicates: Sequence[PodPredicate] = PREDICATES) -> dict[str, dict[str, Any]]:
    """Everything about each row of a view."""
    counts = [nodes.count(predicate).tolist() for predicate in predicates]
    labels = {key: nodes.label(key) for key in KEYS}
    images = {name: nodes.image(name) for name in IMAGES}
    amounts = {"allocatable": nodes.allocatable, "requested": nodes.requested, "free": nodes.free}
    found: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(nodes.names):
        node = nodes[i]
        assert node.name == name
        assert nodes.index(name) == i
        resources = {*nodes.resources, *node.allocatable, *node.requested}
        by_column = {
            which: _nonzero({resource: column[resource].item(i) for resource in resources})
            for which, column in amounts.items()
        }
        assert by_column == {
            "allocatable": _nonzero(node.allocatable),
            "requested": _nonzero(node.requested),
            "free": _nonzero(node.free),
        }
        found[name] = {
            **by_column,
            "node": node.node,
            "pods": {pod.uid: pod.pod for pod in node.pods},
            "pod count": nodes.pod_count.item(i),
            "nonzero requested": nodes.nonzero_requested[:, i].tolist(),
            "allowed pods": nodes.allowed_pods.item(i),
            "unschedulable": (nodes.unschedulable.item(i), node.unschedulable),
            "taints": (_value(nodes.taints, i), list(node.taints)),
            "features": _value(nodes.declared_features, i),
            "labels": {key: _value(column, i) for key, column in labels.items()},
            "images": {
                image: (held.item(i), size, holders) for image, (held, size, holders) in images.items()
            },
            "counts": [column[i] for column in counts],
        }
    return found


def _nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def _value(column: Ids[Any], i: int) -> Any:
    code = column.ids.item(i)
    return None if code < 0 else column.values[code]


def domains(
    nodes: EngineNodes, predicate: PodPredicate, key: str, eligible: frozenset[str] | None
) -> dict[str, tuple[int, int]]:
    """Label value → (number of nodes, number of matching pods on them), from the table's running sums."""
    mask = None if eligible is None else np.array([name in eligible for name in nodes.names], np.bool_)
    sums = nodes.domain_sums(predicate, key, mask)
    return read_domains(nodes, key, sums)


def read_domains(nodes: EngineNodes, key: str, sums: Any) -> dict[str, tuple[int, int]]:
    values = nodes.label(key).values
    found = {
        values[i]: (members, sums.sums.item(i)) for i, members in enumerate(sums.members.tolist()) if members
    }
    assert sums.total == sum(count for _, count in found.values())
    return found


def whole(cluster: ClusterState) -> dict[str, Any]:
    """Everything about a cluster."""
    return {
        "nodes": facts(cluster.nodes),
        "claims": {
            f"{ns}/{name}": cluster.claim_users(f"{ns}/{name}") for ns in NAMESPACES for name in CLAIMS
        },
        "pods": sorted(pod.uid for pod in cluster.pods()),
        "placed": len(cluster),
        "assumed": cluster.assumed_count(),
    }
