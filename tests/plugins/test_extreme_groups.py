"""Extreme amounts in what is computed for groups: scores of placements, and what minResources lack."""

from __future__ import annotations

from typing import cast

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mooring.framework.handle import Handle
from mooring.framework.placements import Assignment, Placement, PlacementPlan, PodGroupInfo
from mooring.framework.pod import GroupKey
from mooring.plugins.args import NodeResourcesFitArgs
from mooring.plugins.arithmetic import truncating_divide, valid_score
from mooring.plugins.node_resources_fit.node_resources_fit import NodeResourcesFit
from mooring.plugins.pod_group_pods_count import PodGroupPodsCount
from mooring.runtime.amounts import wrap_int64
from mooring.runtime.engine_handle import EngineHandle
from mooring.state.store import ObjectStore
from tests.core.groups.group_kit import coscheduling_cluster, gpu_node, labelled_group, labelled_pods
from tests.plugins.plugin_kit import Cluster, make_node, make_pod
from tests.plugins.volume_kit import Desk

LARGEST = 2**63 - 1
amounts = st.sampled_from([0, 1, 3, 100, LARGEST // 100, LARGEST // 100 + 1, 2**62, LARGEST - 1, LARGEST])
quickly = settings(max_examples=30, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
GROUP = PodGroupInfo(GroupKey("default", "train", "scheduling.k8s.io"), (), ())
GPU = "nvidia.com/gpu"


@quickly
@given(
    st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4),
    st.lists(amounts, max_size=3),
    st.booleans(),
)
def test_placements_score_as_int64_adds_up(
    nodes: list[tuple[int, int]], members: list[int], whole: bool
) -> None:
    """cpu counts in thousandths, which hold no such amounts; memory does."""
    chosen = nodes if whole else nodes[:1]
    there = {f"n{i}": [make_pod(f"p{i}", {"memory": used})] for i, (_, used) in enumerate(nodes)}
    cluster = Cluster([make_node(f"n{i}", {"memory": size}) for i, (size, _) in enumerate(nodes)], there)
    desk = cast(EngineHandle, Desk(cluster, ObjectStore()))
    plugin = NodeResourcesFit(NodeResourcesFitArgs(), desk)
    pods = [cluster.info(make_pod(f"m{i}", {"memory": amount})) for i, amount in enumerate(members)]
    names = None if whole else frozenset(["n0"])
    plan = PlacementPlan(Placement("", names), [Assignment(pod, "n0") for pod in pods])
    size = wrap_int64(sum(each for each, _ in chosen))
    used = wrap_int64(sum(used for _, used in chosen) + sum(members))
    expected = 0
    if size:
        expected = valid_score(truncating_divide(wrap_int64(min(used, size) * 100), size))
    assert plugin.score_placement(GROUP, plan) == expected


@quickly
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=5))
def test_placements_are_compared_by_their_members(counts: list[int]) -> None:
    plugin = PodGroupPodsCount(None, cast(Handle, None))
    if max(counts):
        scores = plugin.normalize_placement_scores(GROUP, counts)
        assert scores == [count * 100 // max(counts) for count in counts]


@settings(quickly, max_examples=15)
@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4), amounts)
def test_min_resources_are_exact(nodes: list[tuple[int, int]], least: int) -> None:
    cluster = coscheduling_cluster()
    for i, (size, used) in enumerate(nodes):
        node = gpu_node(f"n{i}")
        node["status"]["allocatable"][GPU] = str(size)
        cluster.apply(node)
        there = {"containers": [{"name": "main", "resources": {"requests": {GPU: str(used)}}}]}
        spec = {"nodeName": f"n{i}", **there}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}"}, "spec": spec})
    cluster.apply(labelled_group("train", 1, minResources={GPU: str(least)}), *labelled_pods("train", 1))
    cluster.schedule()
    left = least
    for size, used in nodes:
        left -= wrap_int64(size - used)
        if left <= 0:
            break
    member = next(pod for pod in cluster.pods() if pod.name == "train-0")
    messages = [condition.message for condition in member.status.conditions]
    assert any(f"resource gap: {GPU}:{left}" in text for text in messages) == (left > 0)
