"""What a scheduler says about a group of pods in each state that a group can be in."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.times import format_time
from mooring.explain.explain import decisions
from mooring.explain.explanation import GroupExplanation
from mooring.explain.group_report import report_group
from mooring.explain.groups import explain_named_group
from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.core.groups.group_kit import (
    ALL_GATES,
    bound,
    cluster_with,
    gang,
    gpu_node,
    gpu_nodes,
    gpu_pod,
    members,
    pod_group,
)

LACKS_ONE = (
    "default/train is pending: 7 of 8 members have a place; train-7 lacks 8 nvidia.com/gpu: "
    "n7 would do after default/web-3 leaves (4 of 8 nvidia.com/gpu free)"
)


def about(cluster: SchedulerCluster, group: str = "train") -> GroupExplanation:
    explanation = explain_named_group(cluster.scheduler, "default", group)
    assert explanation is not None
    return explanation


def lacking_one(**options: Any) -> SchedulerCluster:
    cluster = cluster_with(*gpu_nodes(8), gpu_pod("web-3", gpus=4, nodeName="n7"), **options)
    cluster.apply(*gang("train", 8))
    cluster.schedule()
    return cluster


def test_a_group_that_lacks_a_place_says_who_lacks_what_and_where() -> None:
    explanation = about(lacking_one())
    assert explanation.summary == LACKS_ONE
    assert (explanation.state, explanation.places, explanation.scheduled) == ("pending", 7, 0)
    lines = list(report_group(explanation))
    assert "  for a node with 8 nvidia.com/gpu free" in lines
    assert any("a node is added" in line and "(NodeResourcesFit)" in line for line in lines)
    assert "  default/train-6  would go to n6" in lines
    assert any(line.endswith("add a node like n0 (64 cpu, 256Gi memory)") for line in lines)


def test_the_advice_holds() -> None:
    cluster = lacking_one()
    cluster.delete("pod/web-3")
    cluster.schedule()
    assert len(bound(cluster, "train")) == 8
    assert about(cluster).summary == "default/train is scheduled: 8 of 8 members have a node"


def test_an_explanation_leaves_no_trace() -> None:
    """Two clusters with one seed go on alike, although in one everything is explained all the time."""
    explained, other = lacking_one(seed=3), lacking_one(seed=3)
    for step in range(4):
        for _ in range(3):
            about(explained)
            decisions(explained.scheduler, None, "default", "train-2")
        for cluster in (explained, other):
            cluster.apply(gpu_node(f"extra-{step}"), gpu_pod(f"one-{step}", gpus=1))
            cluster.schedule()
        assert bound(explained) == bound(other)
    assert explained.scheduler.cluster.assumed_count() == 0
    assert len(bound(explained, "train")) == 8


def test_a_gang_without_enough_pods_counts_them() -> None:
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(pod_group("train", 8), *members("train", 5))
    explanation = about(cluster)
    assert explanation.summary == (
        "default/train waits for pods: 5 of 8 pods exist; all of them would fit now"
    )
    assert "  for 3 more pods" in list(report_group(explanation))
    pod = decisions(cluster.scheduler, None, "default", "train-1")
    assert pod is not None
    assert pod.state == "gated"
    assert pod.summary.endswith(f"; its group {explanation.summary}")


def test_a_change_that_helps_one_of_several_members_says_so() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    cluster.apply(pod_group("train", 5), *members("train", 5))
    cluster.schedule()
    lines = list(report_group(about(cluster)))
    heading = next(i for i, line in enumerate(lines) if " would do, for one of 3 members" in line)
    assert "add a node like" in lines[heading + 1]
    cluster.apply(gpu_node("n2"), gpu_node("n3"))
    cluster.schedule()
    assert "This would do" in list(report_group(about(cluster)))


def test_pods_without_their_group_name_it() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    cluster.apply(*members("train", 2))
    assert about(cluster).summary == "default/train does not exist, and 2 pods wait for it"


def test_a_group_without_pods_or_object() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    assert explain_named_group(cluster.scheduler, "default", "train") is None
    cluster.apply(pod_group("train", 2))
    assert about(cluster).summary == "default/train has no pods"


def test_a_member_names_the_state_of_its_group() -> None:
    cluster = lacking_one()
    pod = decisions(cluster.scheduler, None, "default", "train-2")
    assert pod is not None
    assert pod.group is not None
    assert (pod.group.group, pod.group.state) == ("default/train", "pending")
    assert pod.summary == f"default/train-2 waits with its group: {LACKS_ONE}"


def test_members_of_a_group_that_runs_wait_for_themselves() -> None:
    cluster = cluster_with(*gpu_nodes(4))
    cluster.apply(*gang("train", 5, min_count=3))
    cluster.schedule()
    explanation = about(cluster)
    assert explanation.state == "scheduled"
    assert explanation.summary == (
        "default/train is scheduled: 4 of 5 members have a node; train-4 lacks 8 nvidia.com/gpu"
    )
    pod = decisions(cluster.scheduler, None, "default", "train-4")
    assert pod is not None
    assert pod.summary.startswith("default/train-4 is pending: none of 4 nodes fits")


def test_each_placement_is_counted_and_the_best_one_explained() -> None:
    racks = [gpu_node(f"r{r}-{i}", rack=f"r{r}") for r in (1, 2) for i in range(8)]
    busy = [gpu_pod(f"old-{i}", nodeName=f"r1-{i}") for i in range(5)]
    cluster = cluster_with(*racks, *busy, gates=ALL_GATES)
    group, *pods = gang("train", 8)
    group["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    cluster.apply(gpu_pod("web-3", gpus=4, nodeName="r2-4"), group, *pods)
    cluster.schedule()
    explanation = about(cluster)
    assert [(each.name, each.places) for each in explanation.placements] == [("r2", 7), ("r1", 3)]
    assert explanation.summary == (
        "default/train is pending: 7 of 8 members have a place in rack=r2; train-7 lacks 8 nvidia.com/gpu: "
        "r2-4 would do after default/web-3 leaves (4 of 8 nvidia.com/gpu free)"
    )
    assert "  for a node with 8 nvidia.com/gpu free in rack=r2" in list(report_group(explanation))


def test_no_more_pods_than_necessary_would_have_to_leave() -> None:
    cluster = cluster_with(gpu_node("n0"))
    cluster.apply(gpu_pod("small", gpus=1, nodeName="n0"), gpu_pod("large", gpus=5, nodeName="n0"))
    cluster.apply(*gang("train", 1, gpus=7))
    [lacking] = about(cluster).lacking
    assert lacking.departure is not None
    assert lacking.departure.pods == ["default/large"]


def test_a_node_that_would_do_for_one_of_several_members_says_so() -> None:
    cluster = cluster_with(*gpu_nodes(2), gpu_pod("web", nodeName="n0"), gpu_pod("db", nodeName="n1"))
    cluster.apply(*gang("train", 2))
    cluster.schedule()
    assert about(cluster).summary == (
        "default/train is pending: 0 of 2 members have a place; train-0 and 1 more lack 8 nvidia.com/gpu "
        "each: for one of them, n0 would do after default/web leaves (0 of 8 nvidia.com/gpu free)"
    )


def test_members_of_an_indexed_job_are_alike() -> None:
    cluster = cluster_with(*gpu_nodes(1))
    group, *pods = gang("train", 3)
    for index, pod in enumerate(pods):
        pod["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": str(index)}
    cluster.apply(group, *pods)
    explanation = about(cluster)
    assert explanation.summary == (
        "default/train is pending: 1 of 3 members have a place; train-1 and 1 more lack 8 nvidia.com/gpu each"
    )
    lines = list(report_group(explanation))
    assert "  for room for 2 members that request 8 nvidia.com/gpu each" in lines


IN_ONE_RACK = {"topology": [{"key": "rack"}]}


def test_a_member_that_comes_later_says_which_rack_holds_it_and_who_is_in_the_way() -> None:
    racks = [gpu_node(f"{rack}-{i}", rack=rack) for rack, size in (("r1", 2), ("r2", 4)) for i in range(size)]
    cluster = cluster_with(*racks, gates=ALL_GATES)
    cluster.apply(pod_group("train", 2, schedulingConstraints=IN_ONE_RACK), *members("train", 2))
    cluster.schedule()
    left = bound(cluster)["train-1"]
    cluster.delete("pod/train-1")
    cluster.apply(gpu_pod("intruder", nodeName=left))
    cluster.schedule()
    cluster.apply(*members("train", 1, start=2))
    cluster.schedule()
    assert list(bound(cluster, "train")) == ["train-0"]
    summary = about(cluster).summary
    assert "in rack=r1" in summary
    assert f"train-2 lacks 8 nvidia.com/gpu: {left} would do after default/intruder leaves" in summary
    cluster.delete("pod/intruder")
    cluster.schedule()
    assert bound(cluster, "train")["train-2"] == left


def test_nodes_without_the_label_are_counted() -> None:
    racks = [gpu_node(f"{rack}-{i}", rack=rack) for rack in ("r1", "r2") for i in range(2)]
    cluster = cluster_with(*racks, *gpu_nodes(3), gates=ALL_GATES)
    cluster.apply(pod_group("train", 3, schedulingConstraints=IN_ONE_RACK), *members("train", 3))
    cluster.schedule()
    assert bound(cluster) == {}
    explanation = about(cluster)
    assert [(each.name, each.nodes) for each in explanation.placements] == [("r1", 2), ("r2", 2)]
    assert "  gang of at least 3; all in one rack, which 3 nodes do not have; 3 pods, 0 on nodes" in list(
        report_group(explanation)
    )


@pytest.mark.parametrize("reserve", [None, 900])
def test_a_gang_that_starves_says_since_when_and_by_whom(reserve: int | None) -> None:
    cluster = cluster_with(*gpu_nodes(2), gang_args={"reserveAfterSeconds": reserve} if reserve else {})
    cluster.apply(*(gpu_pod(f"early-{i}", gpus=4, nodeName=f"n{i}") for i in range(2)))
    cluster.apply(*gang("train", 2))
    cluster.schedule()
    since = format_time(cluster.scheduler.clock())
    cluster.advance(60)
    for i in range(2):
        late = gpu_pod(f"late-{i}", gpus=4)
        late["metadata"]["creationTimestamp"] = format_time(cluster.scheduler.clock())
        cluster.apply(late)
    cluster.schedule()
    lines = list(report_group(about(cluster)))
    came = "2 pods that came later have nodes: default/late-0, default/late-1"
    assert f"  starves since {since}: {came}" in lines
    kept = "nodes are kept for it after 900s" if reserve else "no node is kept for it; hint: set reserve"
    assert any(kept in line for line in lines)
