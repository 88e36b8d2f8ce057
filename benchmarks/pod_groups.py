"""PodGroups on an API server: gangs that a scheduler binds whole, with the feature gates that takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import workloads
from benchmarks.api_server import LABELS, NAMESPACE, Api

GATES = "GenericWorkload=true,GangScheduling=true"
API_SERVER_FLAGS = (f"--feature-gates={GATES}", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
PATH = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"
MEMBERS = {"gang": 1_000_000, "gangs": 100}  # by row: one gang of all pods, or many


def in_gangs_of(members: int) -> Callable[[int], dict[str, Any]]:
    def make(i: int) -> dict[str, Any]:
        return workloads.pod(i, schedulingGroup={"podGroupName": f"gang-{i // members:04d}"})

    return make


async def make_groups(api: Api, row: str, pods: int) -> None:
    """Create the PodGroup of each gang."""
    size = MEMBERS[row]
    for first in range(0, pods, size):
        policy = {"gang": {"minCount": min(size, pods - first)}}
        group = {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": f"gang-{first // size:04d}", "labels": LABELS},
            "spec": {"schedulingPolicy": policy},
        }
        await api.create(PATH, group)
