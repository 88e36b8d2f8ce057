"""Jobs whose pods start together get a Workload and a PodGroup, as kube-controller-manager makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mooring.api.jobs import Job
from mooring.api.meta import ObjectMeta
from mooring.client.api_errors import ApiError
from mooring.sandbox.controllers.job_groups import pod_group_name, workload_name
from mooring.testing import make_node
from mooring.testing.sandbox_cluster import SandboxCluster

GATES = ["GenericWorkload", "GangScheduling", "WorkloadWithJob"]


@pytest.fixture
def cluster() -> Iterator[SandboxCluster]:
    with SandboxCluster([make_node(f"n{i}", cpu="4") for i in range(2)], feature_gates=GATES) as made:
        yield made


def job(name: str = "train", template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    shape = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", **spec}
    container = {
        "name": "main",
        "image": "train",
        "command": ["sleep", "600"],
        "resources": {"requests": {"cpu": "4"}},
    }
    pod = {"restartPolicy": "Never", "containers": [container], **(template or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**shape, "template": {"spec": pod}},
    }


def test_a_gang_of_an_indexed_job_starts_whole(cluster: SandboxCluster) -> None:
    cluster.apply(job())
    cluster.advance(5)
    [workload], [group] = cluster.list("workloads"), cluster.list("podgroups")
    owner = cluster.get("job/train")["metadata"]
    name = workload["metadata"]["name"]
    assert name.startswith("train-")
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
        "podGroupTemplates": [{"name": "train-pgt-0", "schedulingPolicy": {"gang": {"minCount": 3}}}],
    }
    by_job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": owner["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    api = {"apiVersion": "scheduling.k8s.io/v1alpha2"}
    assert workload["metadata"]["ownerReferences"] == [by_job]
    by_workload = {**api, "kind": "Workload", "name": name, "uid": workload["metadata"]["uid"]}
    assert group["metadata"]["ownerReferences"] == [by_job, by_workload]
    assert group["metadata"]["name"] == pod_group_name(name, "train-pgt-0")
    assert group["spec"]["podGroupTemplateRef"] == {
        "workload": {"workloadName": name, "podGroupTemplateName": "train-pgt-0"}
    }
    pods = cluster.list("pods")
    assert [pod["metadata"]["ownerReferences"] for pod in pods] == [[by_job]] * 3
    assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {group["metadata"]["name"]}
    notes = [event.note for event in cluster.events("job/train") if event.reason == "WorkloadCreated"]
    assert notes == [f"Created Workload {name} for Job train"]
    assert not any(pod.spec.node_name for pod in cluster.pods())
    cluster.apply(make_node("n2", cpu="4"))
    cluster.wait_scheduled()


def test_a_job_that_is_created_suspended_has_them_at_once(cluster: SandboxCluster) -> None:
    cluster.apply(job(parallelism=2, completions=2, suspend=True))
    cluster.advance(5)
    assert (len(cluster.list("workloads")), len(cluster.list("podgroups")), cluster.list("pods")) == (
        1,
        1,
        [],
    )
    cluster.patch("job/train", {"spec": {"suspend": False}})
    cluster.wait(lambda: len(cluster.pods()) == 2)
    cluster.wait_scheduled()
    assert all(pod.spec.scheduling_group is not None for pod in cluster.pods())


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": 1, "completions": 1},
        {"completions": 4},
        {"completionMode": "NonIndexed"},
        {"template": {"schedulingGroup": {"podGroupName": "own"}}},
    ],
)
def test_other_jobs_have_none(cluster: SandboxCluster, spec: dict[str, Any]) -> None:
    cluster.apply(job(**spec))
    cluster.advance(5)
    assert cluster.list("workloads") == []
    assert cluster.pods()


def test_the_parallelism_of_a_gang_is_fixed(cluster: SandboxCluster) -> None:
    cluster.apply(job())
    cluster.advance(5)
    group = cluster.list("podgroups")[0]["metadata"]["name"]
    reason = f'cannot change parallelism for a Job referencing gang-scheduled PodGroup "{group}"'
    with pytest.raises(ApiError, match=reason):
        cluster.patch("job/train", {"spec": {"parallelism": 2, "completions": 2}})


def test_without_the_gate_jobs_are_as_they_were() -> None:
    with SandboxCluster(1, feature_gates=GATES[:2]) as cluster:
        cluster.apply(job())
        cluster.advance(5)
        assert cluster.list("workloads") == []


def test_names_are_hashed_as_kube_controller_manager_hashes_them() -> None:
    """With names and UIDs of objects that kube-controller-manager v1.36 has created."""
    for name, uid, expected in (
        ("idx", "43b35044-565c-4a3e-99ef-bb97cbdf62d6", "idx-bb946df48"),
        ("susp", "09c7b887-a343-44fa-95b1-216acc1d3dd2", "susp-678f6f99d8"),
    ):
        assert workload_name(Job(metadata=ObjectMeta(name=name, uid=uid))) == expected
    assert pod_group_name("idx-bb946df48", "idx-pgt-0") == "idx-bb946df48-idx-pgt-0-67f676bbbb"
    assert pod_group_name("susp-678f6f99d8", "susp-pgt-0") == "susp-678f6f99d8-susp-pgt-0-6969d8685d"


def test_long_names_are_cut_to_their_share() -> None:
    for workload, template in (("w" * 200, "t" * 200), ("w" * 10, "t" * 300), ("w" * 300, "t" * 10)):
        assert len(pod_group_name(workload, template)) == 253
