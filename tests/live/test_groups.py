"""Pod groups on a real API server that serves them: conditions, kubectl's columns, all or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli import main
from tests.core.groups.group_kit import GROUP_WAITS, gang, gpu_node, gpu_pod
from tests.live.cluster import TestCluster
from tests.live.group_kit import bound, create
from tests.live.replica import Replica, configuration, wait_for

GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"


@pytest.fixture(scope="module")
def scheduler(groups_cluster: TestCluster) -> Iterator[Replica]:
    kubeconfig: Path = groups_cluster.kubeconfig(token=groups_cluster.token("mooring", "mooring"))
    config = configuration(kubeconfig, "default-scheduler")
    with Replica(groups_cluster.folder, config, f"--feature-gates={GATES}") as replica:
        yield replica.ready()
        assert replica.end() == 0, replica.log


def status_of(cluster: TestCluster, group: str) -> str:
    return next(
        (line for line in cluster.kubectl("get", "podgroups").splitlines() if line.startswith(f"{group} ")),
        "",
    )


def messages_of(cluster: TestCluster) -> list[str]:
    pods = json.loads(cluster.kubectl("get", "pods", "-o", "json"))["items"]
    return sorted(c["message"] for pod in pods for c in pod["status"].get("conditions", ()))


def mooring(cluster: TestCluster, *arguments: str) -> str:
    result = CliRunner().invoke(main, [*arguments, "--kubeconfig", str(cluster.admin)])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_a_gang_starts_whole_or_not_at_all(groups_cluster: TestCluster, scheduler: Replica) -> None:
    cluster = groups_cluster
    create(cluster, *(gpu_node(f"n{i}") for i in range(4)))
    create(cluster, *gang("train", 5))
    wait_for(lambda: "Unschedulable" in status_of(cluster, "train"), "the condition of train")
    assert bound(cluster, "train") == []
    wait_for(lambda: len(messages_of(cluster)) == 5, "the conditions of the pods")
    messages = messages_of(cluster)
    assert messages[1:] == [GROUP_WAITS] * 4
    assert messages[0].startswith("0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")
    explained = mooring(cluster, "explain", "podgroup/train")
    assert explained.startswith(
        "default/train is pending: 4 of 5 members have a place; train-4 lacks 8 nvidia.com/gpu\n"
    )
    assert "podgroup default/train is pending" in mooring(cluster, "pending")
    create(cluster, gpu_node("n4"))
    wait_for(lambda: len(bound(cluster, "train")) == 5, "all of train")
    wait_for(lambda: "Scheduled" in status_of(cluster, "train").split(), "the condition of train")
    assert len(set(bound(cluster, "train"))) == 5
    create(cluster, gpu_pod("late", "train"))
    line = wait_for(
        lambda: cluster.kubectl("get", "events", "--field-selector=reason=FailedScheduling"), "events"
    )
    assert "FailedScheduling" in line
    assert "Gang" in status_of(cluster, "train")
