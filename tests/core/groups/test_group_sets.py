"""Groups of a Workload that start together: all of them or none."""

from __future__ import annotations

import random

import pytest

from mooring.api.times import format_time
from mooring.framework.cycle_state import CycleState
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, error
from mooring.testing import make_cluster
from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.core.groups.group_kit import (
    ALL_GATES,
    GATES,
    bound,
    cluster_with,
    condition,
    evict_slowly,
    gpu_node,
    gpu_nodes,
    gpu_pod,
    members,
    message,
    nominated,
)
from tests.core.groups.workload_kit import group, train, workload

HELD = 'pod group is unschedulable, waiting for pod group "workers" of the same workload to be scheduled'


def attempts(cluster: SchedulerCluster) -> int:
    return len([decision for decision in cluster.decisions if decision.pod == "default/driver-0"])


def test_both_groups_start_or_neither() -> None:
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(*train(), *members("driver", 1), *members("workers", 8))
    cluster.advance(600)
    assert bound(cluster) == {}
    placed = [name for name in ("driver", "workers") if "same workload" in condition(cluster, name)[2]]
    assert len(placed) == 1  # it has a place, and says what it waits for
    cluster.apply(gpu_node("n8"))
    cluster.schedule()  # in the same instant
    assert len(bound(cluster)) == 9
    assert condition(cluster, "driver") == condition(cluster, "workers") == ("True", "Scheduled", "")


def test_without_the_annotation_groups_are_independent() -> None:
    cluster = cluster_with(*gpu_nodes(4))
    cluster.apply(*train(together=False), *members("driver", 1), *members("workers", 8))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["driver-0"]


def test_the_group_that_has_places_says_what_it_waits_for() -> None:
    cluster = cluster_with(*gpu_nodes(4), gpu_node("small", 1))
    cluster.apply(*train(), *members("driver", 1, gpus=1), *members("workers", 8))
    cluster.schedule()
    assert condition(cluster, "driver") == ("False", "Unschedulable", HELD)
    assert message(cluster, "driver-0") == HELD
    assert condition(cluster, "workers") == ("False", "Unschedulable", "pod group is unschedulable")
    cluster.apply(gpu_pod("web-0"))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["web-0"]  # nothing is held


def test_a_missing_pod_or_group_of_either_holds_both() -> None:
    cluster = cluster_with(*gpu_nodes(9))
    objects = train()
    cluster.apply(*objects[:2], *members("driver", 1), *members("workers", 8))
    cluster.advance(60)
    assert cluster.decisions == []
    cluster.apply(objects[2])
    cluster.schedule()
    assert len(bound(cluster)) == 9

    cluster = cluster_with(*gpu_nodes(9))
    cluster.apply(*objects, *members("workers", 8))
    cluster.advance(60)
    assert cluster.decisions == []
    cluster.apply(*members("driver", 1))
    cluster.schedule()
    assert len(bound(cluster)) == 9


def test_a_gate_on_the_driver_holds_the_workers() -> None:
    cluster = cluster_with(*gpu_nodes(9))
    cluster.apply(*train(), *members("driver", 1, schedulingGates=[{"name": "wait"}]), *members("workers", 8))
    cluster.advance(60)
    assert bound(cluster) == {}
    cluster.apply(*members("driver", 1))
    cluster.schedule()
    assert len(bound(cluster)) == 9


def test_a_group_that_finds_its_nodes_taken_is_planned_first() -> None:
    """The driver would go to the emptiest node, which the workers need."""
    cluster = cluster_with(*gpu_nodes(2), gpu_node("small", 1))
    cluster.apply(gpu_pod("other", gpus=0, nodeName="small"))
    cluster.apply(*train(workers=2), *members("driver", 1, gpus=1), *members("workers", 2))
    cluster.schedule()
    assert bound(cluster, "driver") == {"driver-0": "small"}
    assert len(bound(cluster, "workers")) == 2


def test_a_set_is_tried_only_when_something_changed() -> None:
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(*train(), *members("driver", 1), *members("workers", 8))
    cluster.apply(gpu_node("n8", 4), gpu_pod("web", gpus=1, nodeName="n8"))
    cluster.advance(200)
    tries = attempts(cluster)
    cluster.delete("pod/web")
    cluster.advance(1)
    assert attempts(cluster) == tries == 1


def test_a_basic_group_counts_with_one_member() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    cluster.apply(*train(workers=2, driver=None), *members("workers", 2))
    cluster.schedule()
    assert bound(cluster) == {}
    cluster.apply(*members("driver", 1, gpus=0))
    cluster.schedule()
    assert len(bound(cluster)) == 3


def test_the_annotation_takes_effect_when_it_is_added_or_removed() -> None:
    cluster = cluster_with(*gpu_nodes(4))
    cluster.apply(*train(), *members("driver", 1), *members("workers", 8))
    cluster.schedule()
    assert bound(cluster) == {}
    cluster.apply(train(together=False)[0])
    cluster.schedule()
    assert sorted(bound(cluster)) == ["driver-0"]


class Volumes(Plugin):
    """Fails pre_bind of pods that are named in `failing`."""

    name = "Volumes"
    failing: set[str] = set()

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return error("no volume") if pod.name in self.failing else None


def test_no_member_is_bound_before_the_quorum_of_every_group_passed_pre_bind() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(GATES, True),
        "profiles": [{"plugins": {"preBind": {"enabled": [{"name": "Volumes"}]}}}],
    }
    Volumes.failing = {"workers-3"}
    cluster = make_cluster(config=config, plugins=[Volumes])
    cluster.apply(*gpu_nodes(9), *train(), *members("driver", 1), *members("workers", 8))
    cluster.schedule()
    assert bound(cluster) == {}
    Volumes.failing = set()
    cluster.advance(60)
    assert len(bound(cluster)) == 9


def test_a_set_that_runs_in_part_comes_first() -> None:
    """As after a crash between two binding requests."""
    cluster = cluster_with(*gpu_nodes(9))
    running = [gpu_pod(f"workers-{i}", "workers", nodeName=f"n{i}") for i in range(8)]
    cluster.apply(*train(), *running)
    cluster.apply(gpu_pod("rival", priority=100, preemptionPolicy="Never"), *members("driver", 1))
    cluster.schedule()
    assert bound(cluster, "driver") == {"driver-0": "n8"}
    assert bound(cluster, "rival") == {}


def test_surplus_members_start_alone_once_the_set_runs() -> None:
    cluster = cluster_with(*gpu_nodes(4))
    cluster.apply(*train(workers=2), *members("driver", 1), *members("workers", 4))
    cluster.schedule()
    assert len(bound(cluster)) == 4
    cluster.apply(gpu_node("n4"))
    cluster.schedule()
    assert len(bound(cluster)) == 5


def test_victims_are_evicted_for_all_groups_or_for_none() -> None:
    cluster = cluster_with(*gpu_nodes(4), gates=ALL_GATES)
    evicted = evict_slowly(cluster)
    cluster.apply(*(gpu_pod(f"low-{i}", nodeName=f"n{i}") for i in range(4)))
    cluster.apply(*train(workers=4, priority=10), *members("driver", 1, priority=10))
    cluster.apply(*members("workers", 4, priority=10))
    cluster.schedule()
    assert evicted == []
    cluster.apply(gpu_node("n4"))
    cluster.schedule()
    assert len(evicted) == 4
    kept = nominated(cluster, "driver") | nominated(cluster, "workers")
    assert sorted(kept.values()) == [f"n{i}" for i in range(5)]
    cluster.apply(gpu_pod("rival", priority=5))
    cluster.delete(*(f"pod/low-{i}" for i in range(3)))
    cluster.schedule()
    assert bound(cluster, "driver") == bound(cluster, "workers") == bound(cluster, "rival") == {}
    cluster.delete("pod/low-3")
    cluster.schedule()
    assert len(bound(cluster, "workers")) == 4
    assert len(bound(cluster, "driver")) == 1


def test_each_group_of_a_set_keeps_to_its_rack() -> None:
    cluster = cluster_with(
        *(gpu_node(f"{rack}{i}", rack=rack) for rack in ("r1", "r2") for i in range(4)),
        gates=(*GATES, "TopologyAwareWorkloadScheduling"),
    )
    cluster.apply(gpu_pod("web", nodeName="r10"))
    constraint = {"topology": [{"key": "rack"}]}
    cluster.apply(
        *train(workers=4, schedulingConstraints=constraint), *members("driver", 1), *members("workers", 4)
    )
    cluster.schedule()
    assert {node[:2] for node in bound(cluster, "workers").values()} == {"r2"}
    assert len(bound(cluster, "driver")) == 1


def test_pods_wait_for_a_workload_whose_watch_is_behind() -> None:
    cluster = cluster_with(*gpu_nodes(9))
    objects = train()
    now = cluster.scheduler.clock()
    for each in objects[1:]:
        each["metadata"]["creationTimestamp"] = format_time(now)
    cluster.apply(*objects[1:], *members("driver", 1))
    cluster.schedule()
    assert bound(cluster) == {}
    cluster.apply(objects[0])
    cluster.advance(10)
    assert bound(cluster) == {}
    cluster.apply(*members("workers", 8))
    cluster.schedule()
    assert len(bound(cluster)) == 9


@pytest.mark.parametrize("seed", range(20))
def test_at_every_quiet_point_all_minima_of_a_set_are_bound_or_nothing(seed: int) -> None:
    choose = random.Random(seed)
    cluster = cluster_with(*gpu_nodes(choose.randint(1, 4)))
    objects, minima = [], {}
    for name in ("a", "b", "c"):
        sizes = {f"{name}-{i}": choose.randint(1, 3) for i in range(choose.randint(1, 3))}
        minima[name] = sizes
        templates = workload(*sizes.items())
        templates["metadata"]["name"] = name
        groups = [group(each, count) for each, count in sizes.items()]
        for each in groups:
            each["spec"]["podGroupTemplateRef"]["workload"]["workloadName"] = name
        gpus = choose.choice((2, 4, 8))
        pods = [pod for each, count in sizes.items() for pod in members(each, count, gpus=gpus)]
        cluster.apply(templates)
        objects += [*groups, *pods]
    objects += [gpu_pod(f"web-{i}", gpus=choose.choice((1, 8))) for i in range(4)]
    choose.shuffle(objects)
    for step in range(60):
        if objects and choose.random() < 0.7:
            cluster.apply(*(objects.pop() for _ in range(min(len(objects), choose.randint(1, 4)))))
        elif choose.random() < 0.5:
            cluster.apply(gpu_node(f"new-{step}", choose.choice((2, 8))))
        else:
            cluster.delete(*(f"pod/{name}" for name in bound(cluster, "web")))
        cluster.schedule()
        for name, sizes in minima.items():
            reached = {each: len(bound(cluster, f"{each}-")) >= count for each, count in sizes.items()}
            assert all(reached.values()) or not bound(cluster, f"{name}-"), (step, reached)
    assert any(bound(cluster, f"{name}-") for name in minima)
