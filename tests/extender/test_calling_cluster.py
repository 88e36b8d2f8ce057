"""Extenders asked by the live scheduler, on a whole cluster with an API server in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.testing import make_cluster, make_node, make_pod
from mooring.testing.sandbox_cluster import SandboxCluster
from tests.extender.calling_kit import PATIENT, FakeExtender, names_of, passing, serving

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "annotations": {"team": "blue"}},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "web:1",
                "env": [{"name": "COLOR", "value": "green"}],
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            }
        ],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    },
}


def named(name: str) -> dict[str, Any]:
    return {**POD, "metadata": {**POD["metadata"], "name": name}}


def whole(*extenders: dict[str, Any]) -> SandboxCluster:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    patient = [{"httpTimeout": PATIENT, **extender} for extender in extenders]
    return SandboxCluster(3, config={**kind, "extenders": patient})


@pytest.fixture
def extender() -> Iterator[FakeExtender]:
    with serving() as started:
        yield started


def test_a_cluster_in_memory_asks_them_too(extender: FakeExtender) -> None:
    extender.verbs["filter"] = passing("b")
    settings = {"urlPrefix": extender.url, "filterVerb": "filter", "bindVerb": "bind", "httpTimeout": PATIENT}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster = make_cluster([make_node("a"), make_node("b")], config={**kind, "extenders": [settings]})
    cluster.apply(make_pod("web"))
    cluster.schedule()
    assert cluster.node_of("web") == "b"
    assert [verb for verb, _ in extender.requests] == ["filter"]


def test_pods_and_nodes_are_shown_whole(extender: FakeExtender) -> None:
    extender.verbs["filter"] = passing("node-2")
    with whole({"urlPrefix": extender.url, "filterVerb": "filter"}) as cluster:
        cluster.apply(POD)
        cluster.wait_scheduled()
        (request,) = extender.asked("filter")
        pod = request["Pod"]
        assert not {"kind", "apiVersion"} & set(pod)
        assert "managedFields" not in pod["metadata"]
        container = pod["spec"]["containers"][0]
        assert container["env"] == [{"name": "COLOR", "value": "green"}]
        assert container["volumeMounts"][0] == {"name": "scratch", "mountPath": "/scratch"}
        assert pod["metadata"]["annotations"] == {"team": "blue"}
        assert pod["metadata"]["uid"]
        assert set(request["Nodes"]) == {"metadata", "items"}
        for node in request["Nodes"]["items"]:
            assert node["metadata"]["uid"]
            assert node["status"]["nodeInfo"]["kubeletVersion"]
            assert node["status"]["conditions"]
        assert cluster.pod("web").spec.node_name == "node-2"


def test_a_changed_node_is_shown_as_it_is_now(extender: FakeExtender) -> None:
    label = "priority.example.com"

    def labelled(request: dict[str, Any]) -> Any:
        nodes = request["Nodes"]["items"]
        passed = [node for node in nodes if label in node["metadata"].get("labels", {})]
        if not passed:
            return {"Error": f"all node do not have label {label}"}
        return {"Nodes": {"items": passed}}

    extender.verbs["filter"] = labelled
    with whole({"urlPrefix": extender.url, "filterVerb": "filter"}) as cluster:
        cluster.apply(POD)
        cluster.advance(5)
        assert cluster.pod("web").spec.node_name == ""
        assert any(
            condition.message == f"all node do not have label {label}"
            for condition in cluster.pod("web").status.conditions
        )
        cluster.patch("node/node-3", {"metadata": {"labels": {label: "10"}}})
        cluster.advance(30)
        assert cluster.pod("web").spec.node_name == "node-3"
        cluster.delete("node/node-3")
        cluster.apply(named("late"))
        cluster.advance(5)
        assert "node-3" not in names_of(extender.requests[-1][1])


def test_changes_while_an_extender_thinks_are_not_lost(extender: FakeExtender) -> None:
    """A node that is cordoned and a pod that goes while an attempt waits: both count right after."""
    asked, let_go = threading.Event(), threading.Event()
    first = True

    def thinking(request: dict[str, Any]) -> Any:
        nonlocal first
        if first:
            first = False
            asked.set()
            assert let_go.wait(60)
        return {"NodeNames": request["NodeNames"]}

    extender.verbs["filter"] = thinking
    with whole({"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True}) as cluster:
        cluster.apply(named("one"), named("two"), named("three"))
        for _ in range(1000):
            cluster.apply(named("one"))  # lets the loop go round, while virtual time stands still
            if asked.wait(0.01):
                break
        assert asked.is_set()
        cluster.delete("pod/two")
        cluster.patch("node/node-1", {"spec": {"unschedulable": True}})
        assert {pod.spec.node_name for pod in cluster.pods()} == {""}
        let_go.set()
        cluster.wait_scheduled()
        assert {pod.metadata.name for pod in cluster.pods()} == {"one", "three"}
        assert all(pod.spec.node_name for pod in cluster.pods())
        pods = [body["Pod"]["metadata"]["name"] for body in extender.asked("filter")]
        assert pods == ["one", "three"]
        assert names_of(extender.requests[-1][1]) == ["node-2", "node-3"]


def test_an_extender_binds_in_the_place_of_the_plugins(extender: FakeExtender) -> None:
    """This one says it does, and does not: the pod stays promised to its node, and is not bound twice."""
    extender.verbs["bind"] = lambda request: {}
    with whole({"urlPrefix": extender.url, "bindVerb": "bind"}) as cluster:
        cluster.apply(POD)
        cluster.advance(60)
        (request,) = extender.asked("bind")
        assert (request["PodName"], request["PodNamespace"]) == ("web", "default")
        assert request["PodUID"] == cluster.pod("web").metadata.uid
        assert cluster.pod("web").spec.node_name == ""


def test_an_extender_that_is_down_holds_up_its_pods_until_it_is_back(extender: FakeExtender) -> None:
    extender.verbs["filter"] = lambda request: (503, b"")
    with whole({"urlPrefix": extender.url, "filterVerb": "filter"}) as cluster:
        cluster.apply(*(named(f"p{n}") for n in range(5)))
        cluster.advance(20)
        assert all(not pod.spec.node_name for pod in cluster.pods())
        message = f"failed filter with extender at URL {extender.url}/filter, code 503"
        assert any(condition.message == message for condition in cluster.pod("p0").status.conditions)
        extender.verbs["filter"] = passing("node-1", "node-2")
        cluster.advance(20)
        assert {pod.spec.node_name for pod in cluster.pods()} == {"node-1", "node-2"}
