"""Topology-constrained groups, and plugins of the two placement extension points."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.framework import Plugin
from mooring.framework.nodes import Nodes
from mooring.framework.placements import Placement, PlacementPlan, PodGroupInfo
from mooring.testing import make_cluster
from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.core.groups.group_kit import (
    ALL_GATES,
    GATES,
    bound,
    cluster_with,
    condition,
    gpu_node,
    gpu_nodes,
    members,
    message,
    pod_group,
)

TOPOLOGY = (*GATES, "TopologyAwareWorkloadScheduling")
IN_ONE_RACK = {"topology": [{"key": "rack"}]}


def racks(**sizes: int) -> list[dict[str, object]]:
    return [gpu_node(f"{rack}-{i}", rack=rack) for rack, size in sizes.items() for i in range(size)]


def test_the_smallest_rack_that_fits_takes_the_gang() -> None:
    cluster = cluster_with(*racks(r6=6, r8=8, r12=12), gates=TOPOLOGY)
    cluster.apply(pod_group("train", 8, schedulingConstraints=IN_ONE_RACK), *members("train", 8))
    cluster.schedule()
    assert {node.partition("-")[0] for node in bound(cluster).values()} == {"r8"}
    assert len(bound(cluster)) == 8


def test_a_gang_that_fits_in_no_rack_stays_out() -> None:
    cluster = cluster_with(*racks(r1=2, r2=2), gpu_node("unlabelled"), gates=TOPOLOGY)
    cluster.apply(pod_group("train", 3, schedulingConstraints=IN_ONE_RACK), *members("train", 3))
    cluster.schedule()
    assert bound(cluster) == {}
    text = "0/2 placements are available, first placement status: pod group is unschedulable"
    assert condition(cluster, "train") == ("False", "Unschedulable", text)
    assert message(cluster, "train-2").startswith("0/2 nodes are available: 2 Insufficient")


def test_a_later_member_stays_in_the_rack_of_the_others() -> None:
    cluster = cluster_with(*racks(r1=2, r2=4), gates=ALL_GATES)
    cluster.apply(pod_group("train", 2, schedulingConstraints=IN_ONE_RACK), *members("train", 2))
    cluster.schedule()
    assert {node.partition("-")[0] for node in bound(cluster).values()} == {"r1"}
    cluster.apply(*members("train", 1, start=2))
    cluster.schedule()
    assert len(bound(cluster)) == 2
    assert "0/2 nodes are available" in message(cluster, "train-2")


def test_without_the_label_there_is_no_placement() -> None:
    cluster = cluster_with(*gpu_nodes(3), gates=TOPOLOGY)
    cluster.apply(pod_group("train", 2, schedulingConstraints=IN_ONE_RACK), *members("train", 2))
    cluster.schedule()
    assert condition(cluster, "train") == ("False", "Unschedulable", "no feasible placements found")
    assert message(cluster, "train-0") == "no feasible placements found"


class Pairs(Plugin):
    """Offers the nodes two by two, and prefers the last pair."""

    name = "Pairs"

    def generate_placements(self, group: PodGroupInfo, nodes: Nodes) -> Sequence[Placement]:
        names = sorted(node.name for node in nodes)
        return [Placement(names[i], frozenset(names[i : i + 2])) for i in range(0, len(names), 2)]

    def score_placement(self, group: PodGroupInfo, plan: PlacementPlan) -> int:
        return int(plan.placement.name.removeprefix("n"))


def test_python_plugins_generate_and_score_placements() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(TOPOLOGY, True),
        "profiles": [
            {
                "plugins": {
                    "multiPoint": {"disabled": [{"name": "TopologyPlacementGenerator"}]},
                    "placementGenerate": {"enabled": [{"name": "Pairs"}]},
                    "placementScore": {"enabled": [{"name": "Pairs", "weight": 5}]},
                }
            }
        ],
    }
    cluster = make_cluster(config=config, plugins=[Pairs])
    assert isinstance(cluster, SchedulerCluster)
    cluster.apply(*gpu_nodes(6), pod_group("train", 2), *members("train", 2))
    cluster.schedule()
    assert sorted(bound(cluster).values()) == ["n4", "n5"]
