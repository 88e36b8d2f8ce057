"""PodGroups of scheduler-plugins, scheduled by the planner of Kubernetes' own."""

from __future__ import annotations

import pytest

from mooring.api.coscheduling import PodGroup
from mooring.core.groups.dialects import labelled_group as labelled_key
from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.core.groups.group_kit import (
    GATES,
    bound,
    coscheduling_cluster,
    gang,
    gpu_node,
    gpu_nodes,
    gpu_pod,
    labelled_group,
    labelled_pods,
    message,
)


def gated_by(cluster: SchedulerCluster, pod: str) -> str:
    """What pre_enqueue of Coscheduling says about a pod."""
    info = next(each for each in cluster.scheduler.intake.pods() if each.name == pod)
    status = cluster.scheduler.profiles["default-scheduler"].plugins["Coscheduling"].pre_enqueue(info)
    return "" if status is None else status.message


def test_a_group_starts_whole_or_not_at_all() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(4))
    cluster.apply(labelled_group("train", 5), *labelled_pods("train", 5))
    cluster.advance(30)
    assert bound(cluster) == {}
    messages = sorted(message(cluster, f"train-{i}") for i in range(5))
    rejected = (
        "PodGroup default/train gets rejected due to Pod train-4 is unschedulable even after PostFilter"
    )
    assert messages[1:] == [rejected] * 4
    assert messages[0].startswith("0/4 nodes are available: 4 Insufficient nvidia.com/gpu. ")
    assert len(cluster.decisions) == 5  # one attempt at each
    cluster.apply(gpu_node("n4"))
    cluster.schedule()
    assert len(bound(cluster)) == 5


def test_pods_before_their_pod_group_start_with_it_at_once() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(3))
    cluster.apply(*labelled_pods("train", 3))
    cluster.advance(120)
    assert (cluster.decisions, gated_by(cluster, "train-0")) == ([], "PodGroup not found")
    cluster.apply(labelled_group("train", 3))
    cluster.schedule()  # in the same instant
    assert len(bound(cluster)) == 3


def test_the_last_sibling_starts_the_group_and_the_others_cost_no_attempt() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(3))
    cluster.apply(labelled_group("train", 3), *labelled_pods("train", 2))
    cluster.advance(60)
    assert cluster.decisions == []
    assert gated_by(cluster, "train-0") == (
        "pre-filter pod train-0 cannot find enough sibling pods, "
        "current pods number: 2, minMember of group: 3"
    )
    cluster.apply(*labelled_pods("train", 1, start=2))
    cluster.schedule()
    assert len(bound(cluster)) == 3


def test_gated_siblings_hold_the_group_until_their_gates_are_removed() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(2))
    gated = labelled_pods("train", 1, start=1, schedulingGates=[{"name": "wait"}])
    cluster.apply(labelled_group("train", 2), *labelled_pods("train", 1), *gated)
    cluster.advance(60)
    assert cluster.decisions == []
    assert gated_by(cluster, "train-0") == (
        "pre-filter pod train-0 cannot proceed due to gated pods in the same PodGroup"
    )
    cluster.apply(*labelled_pods("train", 1, start=1))
    cluster.schedule()
    assert len(bound(cluster)) == 2


def test_lowering_min_member_starts_the_group_at_once() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(2))
    cluster.apply(labelled_group("train", 3), *labelled_pods("train", 3))
    cluster.schedule()
    assert bound(cluster) == {}
    cluster.apply(labelled_group("train", 2))
    cluster.schedule()
    assert len(bound(cluster)) == 2


@pytest.mark.parametrize("spec", [{"scheduleTimeoutSeconds": 10}, {}], ids=["of the group", "of the plugin"])
def test_a_timeout_is_reported_once_and_the_group_keeps_waiting(spec: dict[str, int]) -> None:
    cluster = coscheduling_cluster(*gpu_nodes(1), permitWaitingTimeSeconds=10)
    cluster.apply(labelled_group("train", 2, **spec), *labelled_pods("train", 2))
    cluster.advance(9)
    assert cluster.events("podgroup/train") == []
    cluster.advance(1)
    (event,) = cluster.events("podgroup/train")
    assert (event.reason, event.note) == ("ScheduleTimeout", "no places for 2 pods within 10s; waiting")
    start = "PodGroup default/train: no places for 2 pods within 10s; waiting. "
    assert all(message(cluster, f"train-{i}").startswith(start) for i in range(2))
    assert cluster.scheduler.cluster.assumed_count() == 0
    cluster.advance(200)
    assert len(cluster.events("podgroup/train")) == 1
    cluster.apply(gpu_node("n1"))
    cluster.schedule()
    assert len(bound(cluster)) == 2


def test_min_resources_refuses_a_group_before_any_member_is_tried() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(2))
    group = labelled_group("train", 2, minResources={"nvidia.com/gpu": 24, "cpu": "500m"})
    cluster.apply(group, *labelled_pods("train", 2))
    cluster.schedule()
    assert bound(cluster) == {}
    assert message(cluster, "train-0").startswith("0/2 nodes are available: resource gap: nvidia.com/gpu:8. ")
    cluster.apply(gpu_node("n2"))
    cluster.schedule()
    assert len(bound(cluster)) == 2


def test_a_group_that_failed_is_not_tried_before_its_backoff_ends() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(1), podGroupBackoffSeconds=20)
    cluster.apply(labelled_group("train", 2), *labelled_pods("train", 2))
    cluster.schedule()
    cluster.advance(5)
    cluster.apply(gpu_node("n1"))
    cluster.advance(1)
    assert bound(cluster) == {}
    assert message(cluster, "train-0").startswith(
        "0/2 nodes are available: podGroup default/train failed recently. "
    )
    cluster.advance(20)
    assert len(bound(cluster)) == 2


def test_older_groups_come_first_whatever_the_order_of_their_pods() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(2))
    old, new = labelled_group("old", 2), labelled_group("new", 2)
    old["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    new["metadata"]["creationTimestamp"] = "2020-01-02T00:00:00Z"
    cluster.apply(new, old, *labelled_pods("new", 2), *labelled_pods("old", 2))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["old-0", "old-1"]


def test_pods_without_the_label_are_scheduled_alone() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(2))
    cluster.apply(gpu_pod("web"))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["web"]


def test_of_a_pod_with_both_the_scheduling_group_counts() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(2), gates=GATES)
    native = gang("train", 2)
    for pod in native[1:]:
        pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "absent"}
    cluster.apply(*native)
    cluster.schedule()
    assert len(bound(cluster)) == 2
    warnings = [event for event in cluster.events() if event.reason == "PodGroupLabelIgnored"]
    assert len(warnings) == 1


def test_groups_of_both_kinds_with_one_name_are_two_groups() -> None:
    cluster = coscheduling_cluster(*gpu_nodes(4), gates=GATES)
    pods = labelled_pods("train", 2)
    for pod in pods:
        pod["metadata"].update(name=f"cos-{pod['metadata']['name']}", uid=f"cos-{pod['metadata']['uid']}")
    cluster.apply(labelled_group("train", 2), *pods, *gang("train", 3))
    cluster.schedule()
    assert sorted(bound(cluster, "cos")) == ["cos-train-0", "cos-train-1"]
    assert bound(cluster, "train") == {}


def test_a_group_is_read_from_the_label_and_the_manifest() -> None:
    cluster = coscheduling_cluster()
    cluster.apply(labelled_group("train", 2, minResources={"cpu": "1"}), *labelled_pods("train", 1))
    stored = cluster.scheduler.store.get(PodGroup, "train", "default")
    assert stored is not None
    assert stored.min_count == 2
    key = labelled_key(cluster.pods()[0])
    assert key is not None
    assert (str(key), key.api_group) == ("default/train", "scheduling.x-k8s.io")
