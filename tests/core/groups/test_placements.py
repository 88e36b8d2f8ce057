"""Topology-constrained groups, and plugins of the two placement extension points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mooring.framework import Plugin
from mooring.framework.nodes import Nodes
from mooring.framework.placements import Placement, PlacementPlan, PodGroupInfo
from mooring.testing import make_cluster
from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.calls import growth
from tests.core.groups.group_kit import (
    ALL_GATES,
    GATES,
    bound,
    cluster_with,
    condition,
    gpu_node,
    gpu_nodes,
    gpu_pod,
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


# ---- several levels


def blocks(**sizes: Sequence[int]) -> list[dict[str, object]]:
    """Nodes of blocks that consist of racks of these sizes."""
    return [
        gpu_node(f"{block}-r{rack}-{i}", block=block, rack=f"{block}-r{rack}")
        for block, racks in sizes.items()
        for rack, size in enumerate(racks)
        for i in range(size)
    ]


def in_one_block(count: int, min_count: int | None = None) -> list[dict[str, Any]]:
    group = pod_group("train", min_count or count, schedulingConstraints={"topology": [{"key": "block"}]})
    group["metadata"]["annotations"] = {"mooring/preferred-topology": "rack"}
    return [group, *members("train", count)]


def racks_of(cluster: SchedulerCluster, group: str = "") -> set[str]:
    return {node.rpartition("-")[0] for node in bound(cluster, group).values()}


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_a_preferred_rack_takes_the_gang_if_it_can_and_else_the_fewest_of_a_block(
    recorded: bool, same: bool
) -> None:
    def placed(count: int) -> set[str]:
        cluster = cluster_with(*blocks(b1=(2, 2, 2), b2=(3, 4, 1)), gates=TOPOLOGY)
        cluster.scheduler.record = recorded
        objects = in_one_block(count)
        if not same:  # the members' room is not counted beforehand
            objects[1]["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
            cluster = cluster_with(*_on_linux(blocks(b1=(2, 2, 2), b2=(3, 4, 1))), gates=TOPOLOGY)
        cluster.apply(*objects)
        cluster.schedule()
        assert len(bound(cluster)) in (0, count)
        return racks_of(cluster)

    assert placed(2) in ({"b1-r0"}, {"b1-r1"}, {"b1-r2"})
    assert placed(3) == {"b2-r0"}
    assert placed(4) == {"b2-r1"}
    assert placed(5) == {"b2-r1", "b2-r2"}
    assert placed(6) == {"b2-r0", "b2-r1"}
    assert placed(8) == {"b2-r0", "b2-r1", "b2-r2"}
    assert placed(9) == set()


def _on_linux(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for node in nodes:
        node["metadata"]["labels"]["kubernetes.io/os"] = "linux"
    return nodes


def test_levels_in_the_arguments_prefer_narrower_domains() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(TOPOLOGY, True),
        "profiles": [
            {"pluginConfig": [{"name": "TopologyPlacementGenerator", "args": {"levels": ["block", "rack"]}}]}
        ],
    }
    cluster = make_cluster(config=config)
    cluster.apply(*blocks(b1=(2, 2), b2=(3, 1)))
    group, *pods = in_one_block(3)
    del group["metadata"]["annotations"]
    cluster.apply(group, *pods)
    cluster.schedule()
    assert racks_of(cluster) == {"b2-r0"}


@pytest.mark.parametrize("recorded", [True, False])
def test_indexes_are_contiguous_in_each_rack(recorded: bool) -> None:
    cluster = cluster_with(*blocks(b1=(8, 8)), gates=TOPOLOGY)
    cluster.scheduler.record = recorded
    group, *pods = in_one_block(16)
    for i, pod in enumerate(pods):
        pod["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": str(i)}
    cluster.apply(group, *reversed(pods))
    cluster.schedule()
    by_rack: dict[str, list[int]] = {}
    for name, node in bound(cluster).items():
        by_rack.setdefault(node.rpartition("-")[0], []).append(int(name.removeprefix("train-")))
    assert {rack: sorted(indexes) for rack, indexes in by_rack.items()} == {
        "b1-r0": list(range(8)),
        "b1-r1": list(range(8, 16)),
    }


def test_a_later_member_joins_the_rack_of_the_others_if_it_can() -> None:
    cluster = cluster_with(*blocks(b1=(4, 2)), gates=TOPOLOGY)
    cluster.apply(*in_one_block(3))
    cluster.schedule()
    assert racks_of(cluster) == {"b1-r0"}
    cluster.apply(*members("train", 1, start=3))
    cluster.schedule()
    assert racks_of(cluster) == {"b1-r0"}
    cluster.apply(*members("train", 1, start=4))
    cluster.schedule()
    assert racks_of(cluster) == {"b1-r0", "b1-r1"}


def test_a_member_that_comes_later_names_its_rack_and_who_is_in_the_way() -> None:
    cluster = cluster_with(*racks(r1=2, r2=4), gates=ALL_GATES)
    cluster.apply(pod_group("train", 2, schedulingConstraints=IN_ONE_RACK), *members("train", 2))
    cluster.schedule()
    left = bound(cluster)["train-1"]
    cluster.delete("pod/train-1")
    cluster.apply(gpu_pod("intruder", nodeName=left), *members("train", 1, start=2))
    cluster.schedule()
    assert list(bound(cluster, "train")) == ["train-0"]
    held = "The group is held in rack=r1 by its pods there, in the way: default/intruder."
    assert message(cluster, "train-2").endswith(held)


def test_the_message_counts_nodes_without_the_label() -> None:
    cluster = cluster_with(*racks(r1=2, r2=2), *gpu_nodes(3), gates=ALL_GATES)
    cluster.apply(pod_group("train", 3, schedulingConstraints=IN_ONE_RACK), *members("train", 3))
    cluster.schedule()
    assert bound(cluster) == {}
    assert message(cluster, "train-2").endswith(". 3 node(s) without label rack.")


def test_members_are_not_tried_in_every_domain_once_it_is_too_small() -> None:
    """Unlike members are placed one by one."""

    def prepared(n: int) -> Callable[[], object]:
        cluster = cluster_with(*(gpu_node(f"n{i}", rack=f"r{i}") for i in range(n)), gates=ALL_GATES)
        cluster.apply(pod_group("g", n, schedulingConstraints=IN_ONE_RACK))
        cluster.apply(*(gpu_pod(f"g-{i}", "g", 5 + i % 4) for i in range(n)))
        return cluster.schedule

    assert growth(prepared, 20) < 3
