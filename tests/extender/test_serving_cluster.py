"""An extender beside a cluster: nodes and pods of its own for nodeCacheCapable, and the binder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mooring import extender as ext
from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.framework import CycleState, NodeInfo, Plugin, PodInfo, Status, unschedulable
from tests.extender.serving_kit import Asked, extender, pod
from tests.live.replica import wait_for
from tests.sandbox.apiserver.kit import Running, running

PODS = "/api/v1/namespaces/default/pods"
COLOUR = "colour"


@ext.filter
def blue(pod: Pod, node: Node) -> Any:
    return None if node.metadata.labels.get(COLOUR) == "blue" else "node(s) were not blue"


@ext.prioritize
def length(node: Node) -> int:
    return len(node.name)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as found:
        for name, colour in (("n1", "blue"), ("n22", "red"), ("n333", "blue")):
            amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
            body = {
                "metadata": {"name": name, "labels": {COLOUR: colour}},
                "status": {"allocatable": amounts, "capacity": amounts},
            }
            assert found.ask("POST", "/api/v1/nodes", body).code == 201
        yield found


def create(server: Running, name: str, **spec: Any) -> dict[str, Any]:
    body = pod(name, **spec)
    del body["metadata"]["uid"], body["status"]
    reply = server.ask("POST", PODS, body)
    assert reply.code == 201, reply.text
    return reply.tree


def binding(made: dict[str, Any], node: str) -> dict[str, Any]:
    metadata = made["metadata"]
    return {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"], "Node": node}


def node_of(server: Running, name: str) -> str | None:
    found: str | None = server.ask("GET", f"{PODS}/{name}").tree["spec"].get("nodeName")
    return found


def ready(it: Asked) -> Asked:
    wait_for(lambda: it.ask("GET", "/readyz").code == 200, "the extender is ready")
    return it


# ---- handlers


def test_names_are_enough_where_nodes_are_kept(server: Running) -> None:
    with extender(blue, length, kubeconfig=server.server.kubeconfig, cached=True) as it:
        ready(it)
        result = it.filter(pod(), "n1", "n22", "n333", "n4444")
        assert (result["Nodes"], result["NodeNames"], result["Error"]) == (None, ["n1", "n333"], "")
        assert result["FailedAndUnresolvableNodes"] == {
            "n22": "node(s) were not blue",
            "n4444": "node(s) were not known to the extender yet",
        }
        assert it.prioritize(pod(), "n1", "n4444", "n333") == {"n1": 2, "n4444": 0, "n333": 4}


def test_whole_nodes_do_as_well_and_the_cluster_is_believed(server: Running) -> None:
    with extender(blue, kubeconfig=server.server.kubeconfig, cached=True) as it:
        sent = {"metadata": {"name": "n22", "labels": {COLOUR: "blue"}}, "more": 1}
        result = ready(it).filter(pod(), sent)
        assert result["FailedAndUnresolvableNodes"] == {"n22": "node(s) were not blue"}


def test_changes_of_nodes_are_followed(server: Running) -> None:
    with extender(blue, kubeconfig=server.server.kubeconfig, cached=True) as it:
        ready(it)
        for colour, passes in (("green", []), ("blue", ["n1"])):
            patch = {"metadata": {"labels": {COLOUR: colour}}}
            server.ask("PATCH", "/api/v1/nodes/n1", patch, content_type="application/merge-patch+json")
            wait_for(lambda p=passes: it.filter(pod(), "n1")["NodeNames"] == p, f"n1 is {colour}")  # type: ignore[misc]


def test_victims_by_uid_are_looked_up(server: Running) -> None:
    seen: list[Pod] = []

    @ext.preempt
    def look(victims: dict[str, ext.Victims]) -> Any:
        seen.extend(victims["n1"].pods)
        return victims

    made = create(server, "victim", nodeName="n1")
    meta = {"n1": {"Pods": [{"UID": made["metadata"]["uid"]}, {"UID": "gone"}], "NumPDBViolations": 0}}
    with extender(look, kubeconfig=server.server.kubeconfig, cached=True) as it:
        reply = ready(it).post("/preempt", {"Pod": pod(), "NodeNameToMetaVictims": meta})
    assert reply.tree["NodeNameToMetaVictims"] == meta
    assert [each.name for each in seen] == ["victim", ""]
    server.ask("DELETE", f"{PODS}/victim?gracePeriodSeconds=0")


# ---- bind


def test_the_binder(server: Running) -> None:
    made = create(server, "bound")
    with extender(blue, kubeconfig=server.server.kubeconfig) as it:
        assert it.post("/bind", binding(made, "n1")).tree == {"Error": ""}
        assert node_of(server, "bound") == "n1"
        again = it.post("/bind", binding(made, "n333"))
        assert again.code == 200
        assert "is already assigned to node" in again.error
        nobody = it.post("/bind", {**binding(made, "n1"), "PodName": "nobody"})
        assert 'pods "nobody" not found' in nobody.error
        other = it.post("/bind", {**binding(create(server, "other"), "n1"), "PodUID": "another"})
        assert other.error == 'pods "other" not found'
        assert node_of(server, "other") is None


def test_a_binder_of_ones_own(server: Running) -> None:
    @ext.bind
    async def careful(pod: Pod, node: str, client: Any) -> None:
        if node == "n22":
            raise ext.ExtenderError(f"{pod.key} does not like {node}")
        await client.bind(pod, node)

    made = create(server, "careful")
    with extender(careful, kubeconfig=server.server.kubeconfig) as it:
        assert it.post("/bind", binding(made, "n22")).error == "default/careful does not like n22"
        assert it.post("/bind", binding(made, "n1")).error == ""
    assert node_of(server, "careful") == "n1"


# ---- plugins


class Crowded(Plugin):
    """Looks at the pods on nodes, and at the whole pod when it is bound."""

    name = "Crowded"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        busy = any(other.labels.get("crowd") for other in node.pods)
        return unschedulable("node(s) were crowded") if busy else None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return unschedulable("not like this") if pod.labels.get("crowd") == "no" else None


def test_plugins_see_the_pods_on_nodes(server: Running) -> None:
    with extender(plugins=(Crowded,), kubeconfig=server.server.kubeconfig, cached=True) as it:
        assert ready(it).filter(pod(), "n1", "n333")["NodeNames"] == ["n1", "n333"]
        body = pod("crowd", nodeName="n333")
        body["metadata"] = {"name": "crowd", "labels": {"crowd": "yes"}}
        made = server.ask("POST", PODS, body).tree
        refused = {"n333": "node(s) were crowded"}
        wait_for(lambda: it.filter(pod(), "n1", "n333")["FailedNodes"] == refused, "the crowd is seen")
        uid = made["metadata"]["uid"]
        meta = {"n333": {"Pods": [{"UID": uid}], "NumPDBViolations": 1}}
        reply = it.post("/preempt", {"Pod": pod(), "NodeNameToMetaVictims": meta})
        assert reply.tree == {"NodeNameToMetaVictims": meta}
        whole = {"n333": {"Pods": [made], "NumPDBViolations": 1}}
        reply = it.post("/preempt", {"Pod": pod(), "NodeNameToVictims": whole})
        assert reply.tree == {"NodeNameToMetaVictims": meta}
    server.ask("DELETE", f"{PODS}/crowd?gracePeriodSeconds=0")


def test_the_binding_cycle_of_plugins(server: Running) -> None:
    made = create(server, "by-plugin")
    body = pod("refused")
    body["metadata"] = {"name": "refused", "labels": {"crowd": "no"}}
    refused = server.ask("POST", PODS, body).tree
    with extender(plugins=(Crowded,), kubeconfig=server.server.kubeconfig) as it:
        assert it.post("/bind", binding(made, "n1")).error == ""
        assert (
            it.post("/bind", binding(refused, "n1")).error
            == 'running PreBind plugin "Crowded": not like this'
        )
        gone = it.post("/bind", {**binding(made, "n1"), "PodUID": "another"})
        assert gone.error == 'pods "by-plugin" of uid another not found'
    assert node_of(server, "by-plugin") == "n1"
    assert node_of(server, "refused") is None


class Paper(KubeObject):
    data: dict[str, str] = {}


class Permitted(Plugin):
    """Looks at objects of a kind that no scheduler watches by itself."""

    name = "Permitted"
    watches = (ApiResource("", "v1", "configmaps", True, Paper),)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        paper = self.handle.listers.get(Paper, node.name, "default")
        return None if paper is not None and paper.data else unschedulable("node(s) had no paper")


def test_plugins_see_the_kinds_that_they_ask_for(server: Running) -> None:
    body = {"metadata": {"name": "n1"}, "data": {"signed": "yes"}}
    assert server.ask("POST", "/api/v1/namespaces/default/configmaps", body).code == 201
    with extender(plugins=(Permitted,), kubeconfig=server.server.kubeconfig, cached=True) as it:
        assert ready(it).filter(pod(), "n1", "n333")["FailedNodes"] == {"n333": "node(s) had no paper"}


# ---- trouble


def test_nothing_is_answered_before_the_nodes_are_known(server: Running) -> None:
    kubeconfig = server.server.kubeconfig.parent / "nobody"
    kubeconfig.write_text(server.server.kubeconfig.read_text().replace(server.server.token, "wrong"))
    with extender(blue, kubeconfig=kubeconfig, cached=True) as it:
        reply = it.post("/filter", {"Pod": pod(), "NodeNames": ["n1"]})
        assert (reply.code, reply.error) == (503, "not ready: still listing nodes")
        assert it.ask("GET", "/readyz").code == 500
        assert it.ask("GET", "/healthz").code == 200
