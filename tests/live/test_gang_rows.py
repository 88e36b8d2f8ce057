"""Gangs on a real API server: schedulers that are killed while they bind one, preemption and topology."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.core.groups.group_kit import gang, gpu_node, gpu_pod, members, pod_group
from tests.core.groups.workload_kit import train
from tests.live.accounts import NAMESPACE
from tests.live.cluster import TestCluster
from tests.live.group_kit import bound, create
from tests.live.replica import LEADS, Replica, configuration, wait_for

GATES = (
    "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,"
    "WorkloadAwarePreemption=true"
)
SLOWLY = {"qps": 2, "burst": 1}
ELECTION = {
    "leaderElect": True,
    "leaseDuration": "5s",
    "renewDeadline": "4s",
    "retryPeriod": "500ms",
    "resourceNamespace": NAMESPACE,
    "resourceName": "mooring",
}


@pytest.fixture(autouse=True)
def nothing_left(groups_cluster: TestCluster) -> Iterator[None]:
    yield
    groups_cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    groups_cluster.kubectl("delete", "nodes", "--all")


def replica(cluster: TestCluster, client: dict[str, Any] | None = None, **more: Any) -> Replica:
    kubeconfig: Path = cluster.kubeconfig(token=cluster.token("mooring", "mooring"))
    config = configuration(kubeconfig, "default-scheduler", **more)
    config["clientConnection"] |= client or {}
    return Replica(cluster.folder, config, f"--feature-gates={GATES}")


def kill_between_bindings(cluster: TestCluster, first: Replica) -> None:
    """Kill a scheduler when three of eight members are bound; others compete for the room from then on."""
    wait_for(lambda: len(bound(cluster, "train")) >= 3, "three bindings", every=0.01)
    first.kill()
    count = len(bound(cluster, "train"))
    assert 3 <= count < 8
    create(cluster, *(gpu_pod(f"rival-{i}") for i in range(8)))


def check_repaired(cluster: TestCluster) -> None:
    wait_for(lambda: len(bound(cluster, "train")) == 8, "the whole gang")
    wait_for(lambda: len(bound(cluster, "rival")) == 1, "a rival on the ninth node")
    nodes = [*bound(cluster, "train"), *bound(cluster, "rival")]
    assert len(set(nodes)) == 9


def test_a_killed_scheduler_completes_the_gang_first_after_its_restart(groups_cluster: TestCluster) -> None:
    create(groups_cluster, *(gpu_node(f"n{i}") for i in range(9)))
    with replica(groups_cluster, SLOWLY) as first:
        first.ready()
        create(groups_cluster, *gang("train", 8))
        kill_between_bindings(groups_cluster, first)
    with replica(groups_cluster) as second:
        second.ready()
        check_repaired(groups_cluster)


def test_a_second_replica_completes_the_gang_first(groups_cluster: TestCluster) -> None:
    create(groups_cluster, *(gpu_node(f"n{i}") for i in range(9)))
    with replica(groups_cluster, {"qps": 4, "burst": 1}, leaderElection=ELECTION) as first:
        first.says(LEADS)
        with replica(groups_cluster, leaderElection=ELECTION) as second:
            second.ready()
            create(groups_cluster, *gang("train-again", 8))
            kill_between_bindings(groups_cluster, first)
            second.says(LEADS)
            check_repaired(groups_cluster)


def test_the_groups_of_a_workload_start_together(groups_cluster: TestCluster) -> None:
    cluster = groups_cluster
    create(cluster, *(gpu_node(f"n{i}") for i in range(4)))
    with replica(cluster) as scheduler:
        scheduler.ready()
        create(cluster, *train(workers=4), *members("driver", 1), *members("workers", 4))
        held = 'waiting for pod group "workers" of the same workload to be scheduled'
        text = "jsonpath={.status.conditions[0].message}"
        wait_for(lambda: held in cluster.kubectl("get", "podgroup", "driver", "-o", text), "an attempt")
        assert bound(cluster, "driver") == bound(cluster, "workers") == []
        create(cluster, gpu_node("n4"))
        wait_for(lambda: len(bound(cluster, "workers")) == 4, "the workers")
        wait_for(lambda: len(bound(cluster, "driver")) == 1, "the driver")


# ---- preemption and topology


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


@pytest.fixture(scope="module")
def priorities(groups_cluster: TestCluster) -> None:
    create(groups_cluster, priority_class("low", 10), priority_class("high", 1000))


def important(name: str, count: int) -> list[dict[str, Any]]:
    group = pod_group(name, count, priorityClassName="high")
    return [group, *(gpu_pod(f"{name}-{i}", name, priorityClassName="high") for i in range(count))]


@pytest.mark.usefixtures("priorities")
def test_a_gang_preempts_as_a_whole_or_not_at_all(groups_cluster: TestCluster) -> None:
    cluster = groups_cluster
    create(cluster, *(gpu_node(f"n{i}") for i in range(8)))
    with replica(cluster) as scheduler:
        scheduler.ready()
        low: dict[str, Any] = {"priorityClassName": "low", "terminationGracePeriodSeconds": 0}
        create(cluster, *(gpu_pod(f"low-{i}", **low) for i in range(8)))
        wait_for(lambda: len(bound(cluster, "low")) == 8, "low pods")
        create(cluster, *important("nine", 9))  # more than there are nodes
        wait_for(lambda: "nine" in cluster.kubectl("get", "events"), "an attempt")
        create(cluster, *important("four", 4))
        wait_for(lambda: len(bound(cluster, "four")) == 4, "the gang of four")
        assert len(bound(cluster, "low")) == 4  # the fewest, and none for nine
        assert bound(cluster, "nine") == []


def test_a_gang_for_one_rack_takes_the_smallest_that_fits(groups_cluster: TestCluster) -> None:
    cluster = groups_cluster
    racks = {"r6": 6, "r8": 8, "r12": 12}
    create(cluster, *(gpu_node(f"{r}-{i}", rack=r) for r, size in racks.items() for i in range(size)))
    constraint = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    with replica(cluster) as scheduler:
        scheduler.ready()
        create(cluster, pod_group("rack", 8, **constraint), *(gpu_pod(f"rack-{i}", "rack") for i in range(8)))
        wait_for(lambda: len(bound(cluster, "rack")) == 8, "the gang")
        assert {node.partition("-")[0] for node in bound(cluster, "rack")} == {"r8"}
