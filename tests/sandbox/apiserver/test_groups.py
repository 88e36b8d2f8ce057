"""Workloads and PodGroups in the sandbox: answers of kube-apiserver v1.36.4 with the feature gates on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.sandbox.apiserver.printing.ages import Ages
from mooring.sandbox.cluster.applying import ManifestError
from mooring.testing.sandbox_cluster import SandboxCluster
from tests.core.groups.group_kit import ALL_GATES, GATES, GROUP_WAITS, gang, gpu_node, gpu_pod
from tests.sandbox.apiserver.kit import Direct

VERSION = "scheduling.k8s.io/v1alpha2"
POLICY = {"gang": {"minCount": 2}}
TEMPLATE = {"name": "a", "schedulingPolicy": POLICY}


def sandbox(*gates: str) -> SandboxCluster:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(gates, True),
    }
    return SandboxCluster(0, config=config)


@pytest.fixture(scope="module")
def everything() -> Iterator[SandboxCluster]:
    with sandbox(*ALL_GATES) as cluster:
        cluster.apply(workload("w", podGroupTemplates=[TEMPLATE]))
        yield cluster


def group(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"schedulingPolicy": POLICY, **spec}
    return {"apiVersion": VERSION, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def workload(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": "Workload", "metadata": {"name": name}, "spec": spec}


def template_of(workload: str, template: str) -> dict[str, Any]:
    return {"workload": {"workloadName": workload, "podGroupTemplateName": template}}


INVALID = json.loads((Path(__file__).parent / "data" / "groups.json").read_text())
"""Objects that kube-apiserver rejects, with the end of its messages."""


@pytest.mark.parametrize(("obj", "message"), INVALID, ids=range(len(INVALID)))
def test_invalid_objects_are_rejected(everything: SandboxCluster, obj: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as refusal:
        everything.apply(obj)
    assert str(refusal.value).endswith(message)


def test_a_group_gets_defaults_and_a_finalizer(everything: SandboxCluster) -> None:
    everything.apply(group("ok", status={"conditions": []}, podGroupTemplateRef=template_of("w", "a")))
    tree = everything.get("podgroup/ok")
    assert tree["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    assert "generation" not in tree["metadata"]
    assert tree["status"] == {}
    assert tree["spec"] == {
        "podGroupTemplateRef": template_of("w", "a"),
        "schedulingPolicy": POLICY,
        "disruptionMode": "Pod",
        "priority": 0,
    }


def test_terms_are_immutable(everything: SandboxCluster) -> None:
    everything.apply(group("fixed"))
    with pytest.raises(Exception, match=r"spec\.schedulingPolicy: Invalid value: null: field is immutable"):
        everything.patch("podgroup/fixed", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
    with pytest.raises(Exception, match=r"spec\.podGroupTemplates: Invalid value: null: field is immutable"):
        everything.patch("workload/w", {"spec": {"podGroupTemplates": [TEMPLATE | {"name": "z"}]}})


def test_fields_of_features_that_are_off_are_dropped() -> None:
    with sandbox(*GATES) as cluster:
        cluster.apply(
            group(
                "g",
                schedulingConstraints={"topology": [{"key": "rack"}]},
                disruptionMode="PodGroup",
                priority=5,
                resourceClaims=[{"name": "c", "resourceClaimName": "c"}],
            )
        )
        spec = {"podGroupTemplateRef": None, "schedulingPolicy": POLICY, "disruptionMode": "Pod"}
        assert cluster.get("podgroup/g")["spec"] == spec


def test_without_the_gate_nothing_is_served_and_pods_lose_their_group(direct: Direct) -> None:
    assert direct.api.registry.find("scheduling.k8s.io", "v1alpha2", "podgroups") is None
    with sandbox() as cluster:
        pod = gpu_pod("p", "g")
        del pod["spec"]["priority"]
        cluster.apply(pod)
        assert "schedulingGroup" not in cluster.get("pod/p")["spec"]


def test_a_gang_starts_whole_and_its_group_stays_until_its_pods_are_gone() -> None:
    with sandbox(*GATES) as cluster:
        cluster.apply(gpu_node("n0"), *gang("train", 2))
        cluster.advance(1)
        assert row(cluster) == ["train", "Gang", "<none>", "Unschedulable"]
        assert GROUP_WAITS in {condition.message for condition in cluster.pod("train-0").status.conditions}
        cluster.apply(gpu_node("n1"))
        cluster.wait_scheduled()
        assert row(cluster) == ["train", "Gang", "<none>", "Scheduled"]
        cluster.delete("podgroup/train", "pod/train-0")
        cluster.advance(60)
        assert "deletionTimestamp" in cluster.get("podgroup/train")["metadata"]
        cluster.delete("pod/train-1")
        cluster.advance(60)
        assert cluster.list("podgroups") == []


def row(cluster: SandboxCluster) -> list[str]:
    """What kubectl prints of the only group, but for its age."""
    (tree,) = cluster.list("podgroups")
    return cluster.resource("podgroups").printer.cells(tree, Ages(cluster.now()))[:4]
