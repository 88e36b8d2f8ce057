"""Extreme values of every integer that plugins compute with: the table, each row alone and each node give the
same answer, scores stay in range, and one odd node does not change the answers about the others."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mooring.api.objects import Node, Pod
from mooring.framework.plugin import Plugin, overrides
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.inter_pod_affinity.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources_fit.node_resources_fit import NodeResourcesFit
from mooring.plugins.pod_topology_spread.pod_topology_spread import PodTopologySpread
from mooring.plugins.taint_toleration import TaintToleration
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import ScoreRunner
from tests.plugins.plugin_kit import Cluster, make, make_node, make_pod

INT32, INT64 = 2**31 - 1, 2**63 - 1
counts = st.sampled_from([0, 1, 2, 7, 100, INT32 - 1, INT32])
amounts = st.sampled_from([0, 1, 3, 2**31, 2**53 + 1, 2**62, INT64 - 1, INT64])
names = st.sampled_from(["a", "b", "c"])
PREFERRED, REQUIRED = (
    "preferredDuringSchedulingIgnoredDuringExecution",
    "requiredDuringSchedulingIgnoredDuringExecution",
)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    found = []
    for index in range(draw(st.integers(1, 5))):
        resources = {
            "cpu": draw(amounts),
            "memory": draw(amounts),
            "pods": draw(amounts),
            "x.io/y": draw(amounts),
        }
        taints = [
            {
                "key": draw(names),
                "effect": draw(st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])),
            }
            for _ in range(draw(st.integers(0, 3)))
        ]
        labels = {"zone": draw(names), "kubernetes.io/hostname": f"n{index}", "number": str(draw(amounts))}
        images = [{"names": ["i:1"], "sizeBytes": draw(amounts)}]
        found.append(make_node(f"n{index}", resources, labels=labels, spec={"taints": taints}, images=images))
    return found


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    number = {
        "key": "number",
        "operator": draw(st.sampled_from(["Gt", "Lt"])),
        "values": [str(draw(amounts))],
    }
    zone = {"key": "zone", "operator": "In", "values": [draw(names)]}
    term = {"labelSelector": {"matchLabels": {"app": draw(names)}}, "topologyKey": "zone"}
    constraint = {
        "maxSkew": draw(counts) or 1,
        "topologyKey": draw(st.sampled_from(["zone", "kubernetes.io/hostname"])),
        "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
        "labelSelector": {"matchLabels": {"app": draw(names)}},
    }
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and draw(st.booleans()):
        constraint["minDomains"] = draw(counts) or 1
    affinity: dict[str, Any] = {
        "nodeAffinity": {
            PREFERRED: [
                {"weight": draw(counts), "preference": {"matchExpressions": [expression]}}
                for expression in (number, zone)
            ]
        },
        "podAffinity": {PREFERRED: [{"weight": draw(counts), "podAffinityTerm": term}]},
        "podAntiAffinity": {
            PREFERRED: [{"weight": draw(counts), "podAffinityTerm": term}],
            REQUIRED: [term] if draw(st.booleans()) else [],
        },
    }
    if draw(st.booleans()):
        affinity["nodeAffinity"][REQUIRED] = {"nodeSelectorTerms": [{"matchExpressions": [number]}]}
    requests = {"cpu": draw(amounts), "memory": draw(amounts), "x.io/y": draw(amounts)}
    port = {"containerPort": 1, "hostPort": draw(st.sampled_from([1, 65535])), "protocol": "TCP"}
    return make_pod(
        name,
        requests,
        labels={"app": draw(names)},
        container={"image": "i:1", "ports": [port]},
        affinity=affinity,
        topologySpreadConstraints=[constraint],
        tolerations=[{"key": draw(names), "operator": "Exists"}],
    )


def plugins() -> list[Plugin]:
    return [
        make(TaintToleration),
        make(NodeAffinity),
        make(InterPodAffinity, hard_pod_affinity_weight=100),
        make(PodTopologySpread),
        make(NodePorts),
        make(NodeResourcesFit),
        make(NodeResourcesBalancedAllocation),
        make(ImageLocality),
    ]


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(nodes(), pods("incoming"), st.tuples(pods("b"), pods("c"), pods("d")), st.integers(0, 3), st.data())
def test_all_forms_agree_and_scores_stay_in_range(
    found: list[Node], incoming: Pod, others: tuple[Pod, ...], count: int, data: st.DataObject
) -> None:
    placed: dict[str, list[Pod]] = {}
    for other in others[:count]:
        placed.setdefault(data.draw(st.sampled_from(found)).name, []).append(other)
    cluster = Cluster(found, placed)
    for plugin in plugins():
        if overrides(type(plugin), "filter_nodes"):
            cluster.filter(plugin, incoming)
        if not overrides(type(plugin), "score_nodes"):
            continue
        if not isinstance(plugin, PodTopologySpread):  # which scores all candidates together
            cluster.score(plugin, incoming)
        scores = _normalized(cluster, plugin, incoming)
        assert all(0 <= score <= 100 for score in scores), (plugin.name, scores)


def _normalized(cluster: Cluster, plugin: Plugin, pod: Pod) -> list[int]:
    state, info, nodes = EngineState(), cluster.info(pod), cluster.nodes
    if overrides(type(plugin), "pre_score"):
        status = plugin.pre_score(state, info, nodes)
        if status is not None:
            return []
    scores = ScoreRunner(plugin, 1).run(state, info, nodes)
    if not overrides(type(plugin), "normalize_score"):
        return cast("list[int]", scores.tolist())
    return cast("list[int]", plugin.normalize_score(state, info, scores, nodes).tolist())
