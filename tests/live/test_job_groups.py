"""Jobs whose PodGroup kube-controller-manager creates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.core.groups.group_kit import gpu_node
from tests.live.cluster import TestCluster
from tests.live.control_plane import ControlPlane
from tests.live.group_kit import bound, create
from tests.live.replica import Replica, configuration, wait_for

GATES = "GenericWorkload=true,GangScheduling=true,WorkloadWithJob=true"


@pytest.fixture
def controllers(groups_plane: ControlPlane) -> Iterator[None]:
    if not groups_plane.has("kube-controller-manager"):
        pytest.skip("needs kube-controller-manager: put it into KUBEBUILDER_ASSETS")
    groups_plane.start_controller_manager(
        "job-controller", "podgroup-protection-controller", "garbage-collector-controller"
    )
    yield
    groups_plane.stop_controller_manager()


def indexed_job(name: str, count: int) -> dict[str, Any]:
    container = {"name": "main", "image": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    sizes = {"completionMode": "Indexed", "completions": count, "parallelism": count}
    spec = {**sizes, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def policies(cluster: TestCluster) -> list[str]:
    """The policy and the state of each group, as kubectl shows them."""
    lines = cluster.kubectl("get", "podgroups", "--no-headers").splitlines()
    return [" ".join((line.split()[1], line.split()[3])) for line in lines]


@pytest.mark.usefixtures("controllers")
def test_an_indexed_job_starts_whole(groups_cluster: TestCluster) -> None:
    cluster = groups_cluster
    create(cluster, *(gpu_node(f"n{i}") for i in range(3)))
    kubeconfig = cluster.kubeconfig(token=cluster.token("mooring", "mooring"))
    config = configuration(kubeconfig, "default-scheduler")
    with Replica(cluster.folder, config, f"--feature-gates={GATES}") as scheduler:
        scheduler.ready()
        create(cluster, indexed_job("train", 4))
        wait_for(lambda: policies(cluster) == ["Gang Unschedulable"], "an attempt at the group")
        assert bound(cluster, "train") == []
        create(cluster, gpu_node("n3"))
        wait_for(lambda: len(bound(cluster, "train")) == 4, "all pods of the Job")
        wait_for(lambda: policies(cluster) == ["Gang Scheduled"], "the condition of the group")
        cluster.kubectl("delete", "job", "train", "--cascade=foreground", "--wait=false")
        cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        wait_for(lambda: policies(cluster) == [], "the deletion of the group")
