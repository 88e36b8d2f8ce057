"""ReplicaSets and ReplicationControllers: whose pods are whose, which go first, and what it costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.meta import Condition, ObjectMeta
from mooring.api.objects import ContainerStatus, Pod, PodSpec, PodStatus
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError
from mooring.client.port import Cluster
from mooring.sandbox.controllers.deletion_order import DELETION_COST, pods_to_delete
from mooring.sandbox.controllers.replica_set import (
    BURST,
    ReplicaSetController,
    ReplicationControllerController,
)
from tests.sandbox.controllers.kit import Embedded, Kubelets, Tree, play, template, workload

NOW = 1_900_000_000.0


def bare_pod(name: str, app: str = "web", **metadata: Any) -> Tree:
    made = template(app)
    meta = {"name": name, **made["metadata"], **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}


async def owners(stage: Embedded) -> dict[str, list[str]]:
    return {
        pod["metadata"]["name"]: [owner["name"] for owner in pod["metadata"].get("ownerReferences", [])]
        for pod in await stage.all("pods")
    }


# ---- whose pods are whose ------------------------------------------------------------------------------


def test_orphans_are_adopted_but_not_what_others_own_or_what_has_ended() -> None:
    async def scene(stage: Embedded) -> None:
        other = {"apiVersion": "v1", "kind": "Node", "name": "n0", "uid": "u", "controller": True}
        await stage.create(bare_pod("free"))
        await stage.create(bare_pod("owned", ownerReferences=[other]))
        await stage.create(bare_pod("stranger", app="else"))
        await stage.create(bare_pod("ended"))
        await stage.end_pod("ended")
        await stage.create(workload("ReplicaSet", "web", replicas=1))
        await stage.rest()
        assert await owners(stage) == {"free": ["web"], "owned": ["n0"], "stranger": [], "ended": []}
        assert (await stage.get("replicasets", "web"))["status"]["replicas"] == 1

    play(scene, ReplicaSetController)


def test_a_pod_whose_labels_no_longer_match_is_released_and_replaced() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("ReplicaSet", "web", replicas=1))
        await stage.rest()
        (name,) = await owners(stage)
        await stage.patch("pods", name, {"metadata": {"labels": {"app": "else"}}})
        await stage.rest()
        found = await owners(stage)
        assert len(found) == 2
        assert found[name] == []

    play(scene, ReplicaSetController)


def test_who_is_being_deleted_adopts_and_creates_nothing() -> None:
    async def scene(stage: Embedded) -> None:
        body = workload("ReplicaSet", "web", replicas=1)
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await stage.create(body)
        await stage.rest()
        await stage.delete("replicasets", "web")
        (name,) = await owners(stage)
        await stage.delete("pods", name, grace=0)
        await stage.create(bare_pod("free"))
        await stage.rest()
        assert await owners(stage) == {"free": []}
        assert (await stage.get("replicasets", "web"))["status"]["replicas"] == 0

    play(scene, ReplicaSetController)


def test_a_set_that_came_in_the_place_of_another_of_its_name_has_pods_of_its_own() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("ReplicaSet", "web", replicas=1))
        await stage.rest()
        (first,) = await owners(stage)
        await stage.delete("replicasets", "web")
        await stage.create(workload("ReplicaSet", "web", replicas=1))
        await stage.rest()
        assert len(await owners(stage)) == 2  # the first has an owner that is gone: garbage, not an orphan
        assert (await stage.get("replicasets", "web"))["status"]["replicas"] == 1
        assert first in await owners(stage)

    play(scene, ReplicaSetController)


def test_pods_that_ended_or_go_are_replaced_at_once() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("ReplicaSet", "web", replicas=2))
        await stage.rest()
        await stage.run_pods()
        ended, leaving = await owners(stage)
        await stage.end_pod(ended, "Failed")
        await stage.delete("pods", leaving)
        await stage.rest()
        assert len(await owners(stage)) == 4
        status = (await stage.get("replicasets", "web"))["status"]
        assert (status["replicas"], status["terminatingReplicas"]) == (2, 1)

    play(scene, ReplicaSetController)


# ---- what is refused -----------------------------------------------------------------------------------


def test_where_pods_are_refused_one_is_tried_now_and_then_until_none_is() -> None:
    async def scene(stage: Embedded) -> None:
        limits = [{"type": "Container", "max": {"cpu": "1"}}]
        await stage.create(
            {"kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": limits}},
        )
        made = template("web")
        made["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
        await stage.create(workload("ReplicaSet", "web", replicas=100, template=made))
        await stage.rest()
        (condition,) = (await stage.get("replicasets", "web"))["status"]["conditions"]
        assert condition["type"] == "ReplicaFailure"
        assert condition["reason"] == "FailedCreate"
        assert "maximum cpu usage per Container is 1, but limit is 2" in condition["message"]
        tried = sum(1 for event in await stage.events() if event.reason == "FailedCreate")
        assert 1 <= tried <= 10  # and not once for each pod
        await stage.delete("limitranges", "small")
        await stage.advance(60)
        status = (await stage.get("replicasets", "web"))["status"]
        assert status["replicas"] == 100
        assert "conditions" not in status

    play(scene, ReplicaSetController)


def test_in_a_namespace_that_is_about_to_go_nothing_is_created_and_nobody_complains() -> None:
    async def scene(stage: Embedded) -> None:
        asked = Counting(stage.controllers[0].cluster)
        stage.controllers[0].cluster = asked
        await stage.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}})
        stage.namespace = "going"
        await stage.create(workload("ReplicaSet", "web", replicas=1))
        await stage.rest()
        await stage.delete("namespaces", "going")
        await stage.scale("replicasets", "web", 50)
        await stage.advance(60)
        status = (await stage.get("replicasets", "web"))["status"]
        assert status["replicas"] == 1
        assert "conditions" not in status
        assert {event.reason for event in await stage.events()} == {"SuccessfulCreate"}
        assert asked.asked["create pods"] <= 4

    play(scene, ReplicaSetController)


# ---- ReplicationControllers ------------------------------------------------------------------------------


def test_a_replication_controller_keeps_its_pods_too() -> None:
    async def scene(stage: Embedded) -> None:
        body = workload("ReplicationController", "web", replicas=2, selector={"app": "web"})
        await stage.create({**body, "apiVersion": "v1"})
        await stage.rest()
        await stage.run_pods()
        status = (await stage.get("replicationcontrollers", "web"))["status"]
        assert (status["replicas"], status["readyReplicas"]) == (2, 2)
        assert "terminatingReplicas" not in status
        assert {event.reporting_component for event in await stage.events()} == {"replication-controller"}
        assert {one for found in (await owners(stage)).values() for one in found} == {"web"}

    play(scene, ReplicationControllerController)


# ---- which go first --------------------------------------------------------------------------------------


def pod(name: str, **what: Any) -> Pod:
    conditions = []
    if what.get("ready") is not None:
        since = format_time(NOW - what["ready"])
        conditions.append(Condition(type="Ready", status="True", last_transition_time=since))
    annotations = {DELETION_COST: what["cost"]} if "cost" in what else {}
    return Pod(
        metadata=ObjectMeta(
            name=name,
            uid=what.get("uid", name),
            annotations=annotations,
            creation_timestamp=format_time(NOW - what.get("age", 100)),
        ),
        spec=PodSpec(node_name=what.get("node", "n")),
        status=PodStatus(
            phase=what.get("phase", "Running"),
            conditions=conditions,
            container_statuses=[ContainerStatus(name="c", restart_count=what.get("restarts", 0))],
        ),
    )


ORDER = [
    pod("unassigned", node="", phase="Pending"),
    pod("pending", phase="Pending"),
    pod("unknown", phase="Unknown"),
    pod("not ready"),
    pod("cheap", ready=50, cost="-10"),
    pod("crowded", ready=90, node="crowded"),
    pod("ready since now", ready=1),
    pod("restarted", ready=90, restarts=3),
    pod("young", ready=90, age=1),
    pod("old", ready=90, age=5000),
    pod("dear", ready=1, cost="10"),
]


@given(st.permutations(ORDER))
def test_the_order_in_which_pods_go(pods: list[Pod]) -> None:
    neighbours = [pod(f"other{number}", node="crowded") for number in range(2)]
    for count in range(len(ORDER)):
        gone = pods_to_delete(pods, neighbours, count, NOW)
        crowd = [one.name for one in gone]
        assert crowd == [one.name for one in ORDER[:count]]


@pytest.mark.parametrize("text", ["+5", "05", "five", "2147483648", "1.5", ""])
def test_a_deletion_cost_that_is_no_plain_number_counts_for_nothing(text: str) -> None:
    pods = [pod("a", cost=text, ready=5), pod("b", cost="-1", ready=5), pod("c", cost="1", ready=5)]
    assert [one.name for one in pods_to_delete(pods, [], 2, NOW)] == ["b", "a"]


# ---- what it costs -----------------------------------------------------------------------------------------


class Counting:
    """A cluster that counts what is asked of it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.asked: Counter[str] = Counter()

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._cluster, verb)
        if verb not in ("create", "patch", "update", "delete", "post", "get"):
            return method

        def counted(resource: Any, *args: Any, **options: Any) -> Any:
            self.asked[f"{verb} {resource.plural}"] += 1
            return method(resource, *args, **options)

        return counted


def test_a_pod_costs_one_write_and_its_set_a_few_in_all() -> None:
    async def scene(stage: Embedded) -> None:
        count = BURST + 100
        controller = stage.controllers[0]
        asked = Counting(controller.cluster)
        controller.cluster = asked
        await stage.create(workload("ReplicaSet", "web", replicas=count))
        await stage.advance(10)
        status = (await stage.get("replicasets", "web"))["status"]
        assert (status["replicas"], status["readyReplicas"]) == (count, count)
        assert asked.asked.pop("create pods") == count
        assert asked.asked.pop("patch replicasets") <= 20
        assert not asked.asked
        await stage.scale("replicasets", "web", 0)
        await stage.advance(10)
        assert not await stage.all("pods")
        assert asked.asked.pop("delete pods") == count
        assert asked.asked.pop("patch replicasets") <= 20
        assert not asked.asked

    play(scene, ReplicaSetController, Kubelets)


def test_others_have_their_turn_while_a_large_set_grows() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("ReplicaSet", "large", replicas=3 * BURST))
        await stage.create(workload("ReplicaSet", "small", replicas=1))
        for _ in range(100_000):
            await asyncio.sleep(0)
            if len(await stage.all("pods", "app=small")) == 1:
                break
        assert len(await stage.all("pods", "app=large")) <= 2 * BURST

    play(scene, ReplicaSetController)


def test_a_write_that_fails_is_tried_again() -> None:
    async def scene(stage: Embedded) -> None:
        controller = stage.controllers[0]
        cluster = controller.cluster
        left = 5

        class Failing(Counting):
            def __getattr__(self, verb: str) -> Any:
                nonlocal left
                if verb in ("create", "patch") and left:
                    left -= 1
                    raise ApiError(500, "InternalError", "not now")
                return getattr(cluster, verb)

        controller.cluster = Failing(cluster)
        await stage.create(workload("ReplicaSet", "web", replicas=2))
        await stage.advance(5)
        assert left == 0
        status = (await stage.get("replicasets", "web"))["status"]
        assert status["replicas"] == 2
        assert "conditions" not in status

    play(scene, ReplicaSetController)
