"""A gang that starves behind small pods: nodes are kept for it once it has waited long enough."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.times import format_time
from mooring.explain.groups import explain_named_group
from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.core.groups.group_kit import (
    bound,
    cluster_with,
    coscheduling_cluster,
    gang,
    gpu_nodes,
    gpu_pod,
    labelled_group,
    labelled_pods,
)

NODES, LIFE, EVERY = 4, 100, 5  # so many small pods run at a time that no node is ever empty


def stream(cluster: SchedulerCluster, seconds: int, first: int) -> int:
    """Let small pods come and go; the number of the next."""
    for i in range(first, first + seconds // EVERY):
        ended = f"small-{i - LIFE // EVERY}"
        if any(pod.name == ended for pod in cluster.pods()):
            cluster.delete(f"pod/{ended}")
        cluster.apply(gpu_pod(f"small-{i}", gpus=1))
        cluster.advance(EVERY)
    return first + seconds // EVERY


def starving(args: dict[str, Any], native: bool) -> SchedulerCluster:
    if native:
        return cluster_with(*gpu_nodes(NODES), gang_args=args)
    return coscheduling_cluster(*gpu_nodes(NODES), **args)


def start_gang(cluster: SchedulerCluster, native: bool) -> None:
    if native:
        cluster.apply(*gang("train", 2))
    else:
        cluster.apply(labelled_group("train", 2), *labelled_pods("train", 2))


@pytest.mark.parametrize("native", [True, False], ids=["PodGroup", "Coscheduling"])
def test_freed_room_is_kept_for_a_gang_that_has_waited_long_enough(native: bool) -> None:
    cluster = starving({"reserveAfterSeconds": 300}, native)
    upcoming = stream(cluster, 200, 0)
    start_gang(cluster, native)
    upcoming = stream(cluster, 295, upcoming)
    assert bound(cluster, "train") == {}
    assert not any(pod.status.nominated_node_name for pod in cluster.pods())
    upcoming = stream(cluster, 10, upcoming)
    kept = {pod.status.nominated_node_name for pod in cluster.pods() if pod.name.startswith("train")}
    assert len(kept) == 2
    before = {name for name, node in bound(cluster, "small").items() if node in kept}
    upcoming = stream(cluster, 40, upcoming)
    assert {name for name, node in bound(cluster, "small").items() if node in kept} <= before
    stream(cluster, LIFE, upcoming)
    assert set(bound(cluster, "train").values()) == kept
    assert len(bound(cluster, "small")) == 8 * (NODES - 2)  # which have the rest


def test_without_the_option_nothing_is_kept() -> None:
    cluster = starving({}, native=True)
    upcoming = stream(cluster, 200, 0)
    start_gang(cluster, native=True)
    stream(cluster, 600, upcoming)
    assert bound(cluster, "train") == {}
    assert not any(pod.status.nominated_node_name for pod in cluster.pods())


def test_a_node_that_is_kept_and_disappears_is_replaced() -> None:
    cluster = cluster_with(*gpu_nodes(3), gang_args={"reserveAfterSeconds": 10})
    cluster.apply(*(gpu_pod(f"small-{i}", gpus=4, nodeName=f"n{i}") for i in range(3)))
    cluster.apply(*gang("train", 2))
    cluster.advance(20)
    kept = sorted(pod.status.nominated_node_name for pod in cluster.pods() if pod.name.startswith("train"))
    assert len(kept) == 2
    (third,) = {"n0", "n1", "n2"} - set(kept)
    cluster.delete(f"pod/small-{kept[0][1:]}", f"node/{kept[0]}")
    cluster.delete(f"pod/small-{third[1:]}")  # so that it is tried again
    cluster.advance(1)
    again = sorted(pod.status.nominated_node_name for pod in cluster.pods() if pod.name.startswith("train"))
    assert again == sorted({kept[1], third})


def limited(name: str, seconds: int, **options: Any) -> dict[str, Any]:
    return gpu_pod(name, activeDeadlineSeconds=seconds, **options)


def test_pods_that_end_in_time_use_the_room_that_is_kept() -> None:
    cluster = cluster_with(*gpu_nodes(2), gang_args={"reserveAfterSeconds": 300})
    long = limited("long", 3600, gpus=4, nodeName="n0")
    long["status"] = {"phase": "Running", "startTime": format_time(cluster.scheduler.clock())}
    cluster.apply(long, gpu_pod("other", gpus=4, nodeName="n1"))
    cluster.apply(*gang("train", 2))
    cluster.advance(400)
    assert all(pod.status.nominated_node_name for pod in cluster.pods() if pod.name.startswith("train"))
    left = 3600 - 400
    cluster.apply(limited("late", left + 60, gpus=4), gpu_pod("endless", gpus=4))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["long", "other"]
    explain_named_group(cluster.scheduler, "default", "train")  # which changes nothing
    cluster.apply(limited("quick", left - 60, gpus=4))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["long", "other", "quick"]
    cluster.delete("pod/other", "pod/quick", "pod/long")
    cluster.schedule()
    assert sorted(bound(cluster)) == ["train-0", "train-1"]


def test_no_pod_backfills_where_no_end_is_known() -> None:
    cluster = cluster_with(*gpu_nodes(2), gang_args={"reserveAfterSeconds": 300})
    cluster.apply(*(gpu_pod(f"other-{i}", gpus=4, nodeName=f"n{i}") for i in range(2)))
    cluster.apply(*gang("train", 2))
    cluster.advance(400)
    cluster.apply(limited("quick", 1, gpus=4))
    cluster.schedule()
    assert bound(cluster, "quick") == {}
