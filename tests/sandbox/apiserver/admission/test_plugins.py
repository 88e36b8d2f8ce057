"""Admission beyond recorded requests: what is in this process, changes meanwhile, or is kept by a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mooring.api.kinds import NODES, PODS
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver import EmbeddedServer
from mooring.sandbox.apiserver.context.admission import Admission, AdmissionPlugin
from mooring.sandbox.apiserver.context.calls import TooLongError
from mooring.sandbox.apiserver.context.write import Write
from tests.calls import count_calls
from tests.sandbox.apiserver.kit import Direct, pod

Tree = dict[str, Any]
SCHEDULING = {"group": "scheduling.k8s.io"}


def priority_class(name: str, value: int, **more: Any) -> Tree:
    return {"metadata": {"name": name}, "value": value, **more}


def limit_range(name: str, **limit: Any) -> Tree:
    return {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", **limit}]}}


def requests(made: Tree) -> Tree:
    found: Tree = made["spec"]["containers"][0]["resources"].get("requests", {})
    return found


def node(ready: str | None) -> Tree:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": f"n-{ready}".lower()}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(("ready", "taints"), [(None, 0), ("True", 0), ("False", 1), ("Unknown", 1)])
def test_nodes_made_in_this_process_say_themselves_how_ready_they_are(ready: str | None, taints: int) -> None:
    async def run() -> None:
        async with EmbeddedServer() as server:
            made = await server.cluster.create(NODES, node(ready))
            assert len(made.spec.taints) == taints

    asyncio.run(run())


def test_all_other_nodes_are_tainted_once(direct: Direct) -> None:
    made = direct.tree("create", "nodes", body=node("True"))
    expected = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert made["spec"]["taints"] == expected
    again = {"metadata": {"name": "again"}, "spec": {"taints": expected}}
    assert direct.tree("create", "nodes", body=again)["spec"]["taints"] == expected


def test_priorities_follow_the_classes_as_they_come_and_go(direct: Direct) -> None:
    assert direct.tree("create", "pods", body=pod("a"))["spec"]["priority"] == 0
    body = priority_class("usual", 5, globalDefault=True)
    direct.ask("create", "priorityclasses", body=body, **SCHEDULING)
    made = direct.tree("create", "pods", body=pod("b"))
    assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (5, "usual")
    direct.ask("delete", "priorityclasses", "usual", **SCHEDULING)
    assert direct.tree("create", "pods", body=pod("c"))["spec"]["priority"] == 0
    with pytest.raises(ApiError, match="no PriorityClass with name usual was found"):
        direct.ask("create", "pods", body=pod("d", priorityClassName="usual"))


def test_limits_follow_their_ranges_in_their_namespace(direct: Direct) -> None:
    direct.ask("create", "limitranges", body=limit_range("l", defaultRequest={"cpu": "100m"}))
    assert requests(direct.tree("create", "pods", body=pod("a"))) == {"cpu": "100m"}
    elsewhere = direct.tree("create", "pods", body=pod("a"), namespace="kube-public")
    assert requests(elsewhere) == {}
    changed = limit_range("l", defaultRequest={"cpu": "200m"})
    direct.ask("update", "limitranges", "l", changed)
    assert requests(direct.tree("create", "pods", body=pod("b"))) == {"cpu": "200m"}
    direct.ask("delete", "limitranges", "l")
    assert requests(direct.tree("create", "pods", body=pod("c"))) == {}


def test_what_a_limit_range_makes_of_a_pod_is_validated(direct: Direct) -> None:
    direct.ask("create", "limitranges", body=limit_range("l", default={"memory": "1Gi"}))
    asked = [{"name": "c", "image": "i", "resources": {"requests": {"memory": "2Gi"}}}]
    with pytest.raises(ApiError, match="must be less than or equal to memory limit of 1Gi"):
        direct.ask("create", "pods", body=pod("p", containers=asked))


MANY = {f"example.com/r{number}": "1" for number in range(2000)}


@pytest.mark.parametrize("bound", ["default", "max"])
def test_long_limit_ranges_are_not_multiplied_by_containers(direct: Direct, bound: str) -> None:
    direct.ask("create", "limitranges", body=limit_range("long", **{bound: MANY}))
    small = {"name": "c", "image": "i"}
    body = pod("p", containers=[{**small, "name": f"c{number}"} for number in range(100)])
    with pytest.raises(TooLongError):
        direct.ask("create", "pods", body=body)

    def create() -> None:
        with pytest.raises(ApiError):
            direct.ask("create", "pods", body=body)

    direct.api.may_take_long = True
    assert count_calls(create) < 300_000


def test_writes_under_long_quotas_do_not_delay_others(direct: Direct) -> None:
    hard = {f"requests.{name}": "1" for name in MANY}
    direct.ask("create", "resourcequotas", body={"metadata": {"name": "long"}, "spec": {"hard": hard}})
    with pytest.raises(TooLongError):
        direct.ask("create", "pods", body=pod("p"))


def test_runtime_classes_add_their_overhead_and_where_they_run(direct: Direct) -> None:
    toleration = {"key": "kata", "operator": "Exists"}
    body = {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [toleration]},
    }
    direct.ask("create", "runtimeclasses", body=body, group="node.k8s.io")
    spec = direct.tree("create", "pods", body=pod("p", runtimeClassName="kata"))["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"kata": "yes"})
    assert toleration in spec["tolerations"]
    with pytest.raises(ApiError, match=r"conflict: runtimeClass.scheduling.nodeSelector\[kata\]"):
        direct.ask("create", "pods", body=pod("q", runtimeClassName="kata", nodeSelector={"kata": "no"}))


def test_the_newest_default_class_is_for_claims_that_name_none(direct: Direct) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name in ("old", "new"):
        body = {"metadata": {"name": name, "annotations": default}, "provisioner": "a/b"}
        direct.ask("create", "storageclasses", body=body, group="storage.k8s.io")
        direct.clock.advance(5)
    made = direct.tree("create", "persistentvolumeclaims", body={"metadata": {"name": "c"}, "spec": spec})
    assert made["spec"]["storageClassName"] == "new"


def test_the_newest_default_class_is_for_ingresses_that_name_none(direct: Direct) -> None:
    networking = {"group": "networking.k8s.io"}
    spec = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}

    def made_class(name: str, **more: Any) -> str | None:
        body = {"metadata": {"name": name, **more.pop("metadata", {})}, "spec": {**spec, **more}}
        made: str | None = direct.tree("create", "ingresses", body=body, **networking)["spec"].get(
            "ingressClassName"
        )
        return made

    assert made_class("early") is None
    default = {"ingressclass.kubernetes.io/is-default-class": "true"}
    for name in ("old", "new"):
        body = {"metadata": {"name": name, "annotations": default}, "spec": {"controller": "a.io/b"}}
        direct.ask("create", "ingressclasses", body=body, **networking)
        direct.clock.advance(5)
    assert made_class("plain") == "new"
    assert made_class("named", ingressClassName="old") == "old"
    assert made_class("noted", metadata={"annotations": {"kubernetes.io/ingress.class": "old"}}) is None


def test_what_plugins_know_is_there_after_a_restart(tmp_path: Path) -> None:
    async def run(name: str) -> int | None:
        async with EmbeddedServer(tmp_path) as server:
            made = await server.cluster.create(
                PODS, pod(name, priorityClassName="system-node-critical"), "default"
            )
            return made.spec.priority

    assert asyncio.run(run("a")) == asyncio.run(run("b")) == 2_000_001_000


def test_plugins_see_what_they_asked_for() -> None:
    seen = []

    class Watcher(AdmissionPlugin):
        operations = frozenset({"UPDATE"})
        storages = frozenset({"configmaps"})

        def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
            seen.append((write.operation, write.name))

    direct = Direct()
    direct.api.admission = Admission([Watcher()])
    direct.ask("create", "configmaps", body={"metadata": {"name": "a"}})
    direct.ask("update", "configmaps", "a", {"metadata": {"name": "a"}, "data": {"x": "y"}})
    direct.ask("create", "secrets", body={"metadata": {"name": "a"}})
    assert seen == [("UPDATE", "a")]


def test_a_version_of_a_new_object_is_rejected_after_admission(direct: Direct) -> None:
    direct.tree("create", "limitranges", body=limit_range("small", max={"cpu": "1"}))
    for cpu, code in (("2", 403), ("1", 400)):
        resources = {"limits": {"cpu": cpu}}
        body = pod("a", containers=[{"name": "c", "image": "i", "resources": resources}])
        body["metadata"]["resourceVersion"] = "5"
        with pytest.raises(ApiError) as error:
            direct.tree("create", "pods", body=body)
        assert error.value.code == code
