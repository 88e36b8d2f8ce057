"""Plans that are judged without placing members come to what placing them comes to."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mooring.api.groups import PodGroup
from tests.core.groups.group_kit import (
    ALL_GATES,
    GATES,
    GROUP_WAITS,
    bound,
    cluster_with,
    gang,
    gpu_node,
    gpu_nodes,
    gpu_pod,
    members,
    message,
    pod_group,
)

TOPOLOGY = (*GATES, "TopologyAwareWorkloadScheduling")


def outcome(objects: list[dict[str, Any]], gates: tuple[str, ...], recorded: bool) -> tuple[Any, Any, Any]:
    cluster = cluster_with(gates=gates, seed=3)
    cluster.scheduler.record = recorded  # members whose nodes are recorded are placed one by one
    cluster.apply(*objects)
    cluster.schedule()
    racks = {
        node["metadata"]["name"]: node["metadata"]["labels"] for node in objects if node["kind"] == "Node"
    }
    pending = {
        p.name: [c.message for c in p.status.conditions] for p in cluster.pods() if not p.spec.node_name
    }
    conditions = {
        group.name: [(c.status, c.reason, c.message) for c in group.status.conditions]
        for group in cluster.scheduler.store.list(PodGroup)
    }
    places = sorted((name, racks[node].get("rack")) for name, node in bound(cluster).items())
    return places, pending, conditions


def random_objects(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    nodes = [
        gpu_node(f"n{i}", rng.choice((0, 2, 4, 8)), **({"rack": f"r{rng.randrange(3)}"} if i % 5 else {}))
        for i in range(rng.randint(1, 9))
    ]
    for node in nodes:
        if rng.random() < 0.15:
            node["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    placed = [
        gpu_pod(f"placed-{i}", gpus=rng.choice((0, 1, 2)), nodeName=rng.choice(nodes)["metadata"]["name"])
        for i in range(rng.randint(0, 5))
    ]
    constraints = {"schedulingConstraints": {"topology": [{"key": "rack"}]}} if rng.random() < 0.6 else {}
    count = rng.randint(2, 9)
    shapes = {"gpus": rng.choice((1, 2, 3, 4))}
    group = pod_group("train", rng.randint(1, count), **constraints)
    return [*nodes, *placed, group, *members("train", count, **shapes)]


@pytest.mark.parametrize("gates", [GATES, TOPOLOGY, ALL_GATES], ids=["gang", "topology", "all"])
def test_judging_beforehand_equals_placing_each_member(gates: tuple[str, ...]) -> None:
    for seed in range(40):
        objects = random_objects(seed)
        assert outcome(objects, gates, recorded=False) == outcome(objects, gates, recorded=True), seed


def test_members_without_a_place_say_what_they_lack_when_none_was_placed() -> None:
    cluster = cluster_with(*gpu_nodes(4))
    cluster.scheduler.record = False
    cluster.apply(*gang("train", 5))
    cluster.schedule()
    assert [message(cluster, f"train-{i}") for i in range(4)] == [GROUP_WAITS] * 4
    assert message(cluster, "train-4").startswith("0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")
