"""PodGroups of scheduler-plugins in the sandbox: validation, columns, and the phases of their status."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.testing import make_node
from mooring.testing.sandbox_cluster import SandboxCluster

EXAMPLE = Path(__file__).parents[3] / "examples" / "coscheduling"


@pytest.fixture
def cluster() -> Iterator[SandboxCluster]:
    node = make_node("n1", allocatable={"cpu": "8", "memory": "8Gi", "pods": 110})
    cluster = SandboxCluster([node], config=(EXAMPLE / "scheduler-config.yaml").read_text())
    yield cluster
    cluster.close()


def group(name: str, min_member: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": min_member},
    }


def test_a_group_of_scheduler_plugins_goes_through_its_phases(cluster: SandboxCluster) -> None:
    cluster.apply(EXAMPLE / "nginx.yaml")
    cluster.advance(20)
    status = cluster.get("podgroups.scheduling.x-k8s.io/nginx")["status"]
    assert (status["phase"], status["occupiedBy"]) == ("Scheduling", "default/nginx")
    assert {pod.status.phase for pod in cluster.pods()} == {"Pending"}
    (event,) = (each for each in cluster.events() if each.reason == "ScheduleTimeout")
    assert event.note == "no places for 3 pods within 10s; waiting"
    cluster.apply(make_node("n2", allocatable={"cpu": "8", "memory": "8Gi", "pods": 110}))
    cluster.advance(5)
    status = cluster.get("podgroups.scheduling.x-k8s.io/nginx")["status"]
    assert (status["phase"], status["running"]) == ("Running", 4)


def test_a_group_is_validated(cluster: SandboxCluster) -> None:
    with pytest.raises(Exception, match="should be greater than or equal to 1"):
        cluster.apply(group("bad", 0))
