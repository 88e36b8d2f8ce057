"""What is made of workloads in manifests, beside what the controllers of a cluster make of the same."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.decode import load_trees
from mooring.api.errors import MalformedObject
from mooring.api.meta import KubeObject
from mooring.sandbox.controllers.first_pods import FirstPods, is_workload, workload_of
from mooring.testing import make_node
from mooring.testing.sandbox_cluster import SandboxCluster

Tree = dict[str, Any]

HASHES = ("pod-template-hash", "controller-revision-hash")  # a cluster takes the template with its defaults
SERVERS = (  # labels from the API server: of a pod's node, of a DaemonSet's generation, of a Job's template
    "topology.kubernetes.io/",
    "pod-template-generation",
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)


def workload(kind: str, name: str, version: str = "apps/v1", **spec: Any) -> Tree:
    labels = {"app": name}
    template: Tree = {
        "metadata": {"labels": labels, "annotations": {"mooring/run-time": "1h"}},
        "spec": {
            "containers": [{"name": "main", "image": "app"}],
            "nodeSelector": {"kubernetes.io/os": "linux"},
        },
    }
    selector: Tree = {"selector": {"matchLabels": labels}}
    if kind == "Job":
        template["spec"] = {**template["spec"], "restartPolicy": "Never"}
        selector = {}
    elif kind == "ReplicationController":
        selector = {"selector": labels}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**selector, "template": template, **spec},
    }


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
WORKLOADS = [
    workload("Deployment", "web", replicas=3),
    workload("Deployment", "single"),
    workload("ReplicaSet", "set", replicas=2),
    workload("ReplicationController", "old", "v1", replicas=2),
    workload("StatefulSet", "db", replicas=2, serviceName="db", volumeClaimTemplates=[CLAIM]),
    workload("StatefulSet", "late", replicas=2, ordinals={"start": 3}),
    workload("DaemonSet", "agent"),
    workload("Job", "sums", "batch/v1", parallelism=2, completions=5),
    workload("Job", "parts", "batch/v1", parallelism=3, completions=2, completionMode="Indexed"),
    workload("Job", "held", "batch/v1", suspend=True),
]


def made(tree: Tree, *there: KubeObject) -> list[Tree]:
    assert is_workload(tree)
    return list(FirstPods(there).of(workload_of(tree)))


def told(pod: Tree) -> Tree:
    """What follows from the workload alone."""
    metadata = pod["metadata"]
    owner = metadata["ownerReferences"][0]
    labels = {
        key: "" if key in HASHES else text
        for key, text in metadata["labels"].items()
        if not key.startswith(SERVERS)
    }
    return {
        "labels": labels,
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "owner": (owner["apiVersion"], owner["kind"], owner["name"].split("-")[0], owner["controller"]),
        "volumes": pod["spec"].get("volumes", []),
        "hostname": pod["spec"].get("hostname"),
        "subdomain": pod["spec"].get("subdomain"),
        "selector": pod["spec"]["nodeSelector"],
        "affinity": pod["spec"].get("affinity"),
        "tolerations": [
            each for each in pod["spec"].get("tolerations", []) if "tolerationSeconds" not in each
        ],
    }


def ordered(pods: list[Tree]) -> list[Tree]:
    return sorted(map(told, pods), key=repr)


@pytest.mark.parametrize("tree", WORKLOADS, ids=lambda tree: f"{tree['kind']} {tree['metadata']['name']}")
def test_they_are_what_a_cluster_makes(mooring_cluster: SandboxCluster, tree: Tree) -> None:
    mooring_cluster.apply(tree)
    mooring_cluster.advance(30)
    nodes = [
        make_node(node["metadata"]["name"], labels=node["metadata"]["labels"])
        for node in mooring_cluster.list("nodes")
    ]
    bodies = made(tree, *nodes)
    assert ordered([each for each in bodies if each["kind"] == "Pod"]) == ordered(
        list(mooring_cluster.list("pods"))
    )
    for kind, plural in (("ReplicaSet", "replicasets"), ("PersistentVolumeClaim", "persistentvolumeclaims")):
        mine = [each for each in bodies if each["kind"] == kind]
        theirs = mooring_cluster.list(plural)
        if tree["kind"] != kind:
            assert [each["metadata"].get("labels", {}).keys() for each in mine] == [
                each["metadata"].get("labels", {}).keys() for each in theirs
            ]
    if tree["kind"] == "StatefulSet":
        assert {each["metadata"]["name"] for each in bodies} == {
            each["metadata"]["name"]
            for kind in ("pods", "persistentvolumeclaims")
            for each in mooring_cluster.list(kind)
        }


def test_names_are_numbered_and_objects_can_be_read() -> None:
    bodies = made(WORKLOADS[0])
    loaded = load_trees([(body, "here") for body in bodies])
    assert not loaded.problems
    replica_set, *pods = loaded.objects
    assert [pod.name for pod in pods] == [f"{replica_set.name}-{number}" for number in range(3)]
    owners = [pod.metadata.controller() for pod in pods]
    assert {owner.uid for owner in owners if owner is not None} == {replica_set.uid}


@pytest.mark.parametrize("tree", WORKLOADS, ids=lambda tree: f"{tree['kind']} {tree['metadata']['name']}")
def test_what_is_there_is_not_made_again(tree: Tree) -> None:
    nodes = [make_node("n1", labels={"kubernetes.io/os": "linux"})]
    bodies = made(tree, *nodes)
    there = load_trees([(tree, "a"), *((body, "b") for body in bodies)]).objects
    assert made(tree, *nodes, *there) == []
    pods = [each for each in there if each.kind == "Pod"]
    if pods:
        assert len(made(tree, *nodes, *(each for each in there if each is not pods[0]))) == (
            0 if tree["kind"] == "Deployment" else 1  # its ReplicaSet is there, and has it made
        )


def with_template(kind: str, **parts: Any) -> Tree:
    tree = workload(kind, "web", "batch/v1" if kind == "Job" else "apps/v1")
    tree["spec"]["template"].update(parts)
    return tree


ODD = {"key": "a", "operator": "Inn", "values": ["b"]}
AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [ODD]}]}
}


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        (workload("Deployment", "web", replicas="many"), 'replicas: found "many", expected'),
        (workload("Deployment", "web", selector=None), "selector: found nothing, expected"),
        (workload("Deployment", "web", template=[]), r"template: found \[\], expected"),
        (with_template("Deployment", metadata={"labels": ["x"]}), r'template.metadata.labels: found \["x"\]'),
        (with_template("ReplicaSet", metadata="x"), 'template.metadata: found "x"'),
        (with_template("Job", spec="x"), 'template.spec: found "x"'),
        (with_template("Job", spec={"containers": ["c"]}), r'template.spec.containers\[0\]: found "c"'),
        (
            with_template("DaemonSet", spec={"affinity": {"nodeAffinity": AFFINITY}}),
            r'template.spec.affinity.nodeAffinity.*matchExpressions\[0\].operator: found "Inn", expected',
        ),
        (
            workload("StatefulSet", "web", volumeClaimTemplates=[CLAIM, {"spec": {}}]),
            r"volumeClaimTemplates\[1\].metadata.name: found nothing, expected a name",
        ),
    ],
)
def test_what_is_wrong_is_told(tree: Tree, problem: str) -> None:
    with pytest.raises(MalformedObject, match=rf"{tree['kind']} default/web: spec.{problem}"):
        made(tree, make_node("n1"))
