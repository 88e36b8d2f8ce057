"""Deployments and ReplicaSets behave as those of the real kube-controller-manager, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.kinds import REPLICA_SETS
from mooring.client.api_errors import Unreachable
from mooring.sandbox.controllers.deployment import DeploymentController
from mooring.sandbox.controllers.deployment_history import REVISION, REVISION_HISTORY
from mooring.sandbox.controllers.replica_set import ReplicaSetController
from tests.sandbox.controllers.deployment_scenes import SCENES, play_scene, set_image
from tests.sandbox.controllers.kit import Embedded, Tree, play, workload

DATA = Path(__file__).parent / "data"
CONTROLLERS = (DeploymentController, ReplicaSetController)


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(name: str) -> None:
    """All that is seen of a scene is what was seen when kube-controller-manager played it."""
    recorded = json.loads((DATA / f"{name}.json").read_text())
    found = play(lambda stage: play_scene(name, stage), *CONTROLLERS)
    for number, (page, expected) in enumerate(zip(found["pages"], recorded["pages"], strict=False)):
        assert page == expected, f"page {number}, after: {expected['after']}"
    assert len(found["pages"]) == len(recorded["pages"])
    assert found["events"] == recorded["events"]


async def rolled_out(stage: Embedded) -> Tree:
    """Until there is nothing left to do for kubelets."""
    await stage.rest()
    while await stage.step():
        pass
    return await stage.get("deployments", "web")


def test_a_template_that_returns_keeps_its_replica_set_and_remembers_its_revisions() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("Deployment", "web", replicas=1))
        await rolled_out(stage)
        for image in ("app:2", "app:1", "app:2"):
            await set_image(stage, image)
            deployment = await rolled_out(stage)
        assert deployment["metadata"]["annotations"][REVISION] == "4"
        found = {
            rs["metadata"]["annotations"][REVISION]: rs["metadata"]["annotations"][REVISION_HISTORY]
            for rs in await stage.all("replicasets")
        }
        assert found == {"3": "1", "4": "2"}

    play(scene, *CONTROLLERS)


def test_annotations_are_passed_on_to_the_replica_set_of_the_present_template() -> None:
    async def scene(stage: Embedded) -> None:
        body = workload("Deployment", "web", replicas=1)
        body["metadata"]["annotations"] = {
            "kubernetes.io/change-cause": "first",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        }
        await stage.create(body)
        await rolled_out(stage)
        (rs,) = await stage.all("replicasets")
        assert rs["metadata"]["annotations"]["kubernetes.io/change-cause"] == "first"
        assert "kubectl.kubernetes.io/last-applied-configuration" not in rs["metadata"]["annotations"]
        await stage.patch(
            "deployments", "web", {"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}}
        )
        await stage.rest()
        (rs,) = await stage.all("replicasets")
        assert rs["metadata"]["annotations"]["kubernetes.io/change-cause"] == "second"

    play(scene, *CONTROLLERS)


def test_a_name_that_is_taken_is_a_collision_and_makes_for_another() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("Deployment", "web", replicas=1))
        await stage.rest()
        (first,) = await stage.all("replicasets")
        name = first["metadata"]["name"]
        await stage.delete("deployments", "web")
        await stage.delete("replicasets", name)
        await stage.rest()
        await stage.create(workload("ReplicaSet", name, replicas=0))  # of another label
        await stage.create(workload("Deployment", "web", replicas=1))
        deployment = await rolled_out(stage)
        assert deployment["status"]["collisionCount"] == 1
        assert deployment["status"]["availableReplicas"] == 1
        names = {rs["metadata"]["name"] for rs in await stage.all("replicasets")}
        assert len(names) == 2
        assert name in names

    play(scene, *CONTROLLERS)


def test_a_deployment_that_is_deleted_with_a_finalizer_changes_nothing_any_more() -> None:
    async def scene(stage: Embedded) -> None:
        body = workload("Deployment", "web", replicas=1)
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await stage.create(body)
        await rolled_out(stage)
        await stage.delete("deployments", "web")
        await stage.scale("deployments", "web", 3)
        deployment = await rolled_out(stage)
        assert deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
        assert len(await stage.all("pods")) == 1

    play(scene, *CONTROLLERS)


def test_new_minimum_of_ready_seconds_reaches_the_replica_set() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("Deployment", "web", replicas=1))
        await rolled_out(stage)
        await stage.patch("deployments", "web", {"spec": {"minReadySeconds": 30}})
        await stage.rest()
        (rs,) = await stage.all("replicasets")
        assert rs["spec"]["minReadySeconds"] == 30
        assert (await stage.get("deployments", "web"))["status"].get("availableReplicas", 0) == 0
        await stage.advance(30)
        assert (await stage.get("deployments", "web"))["status"]["availableReplicas"] == 1

    play(scene, *CONTROLLERS)


def test_without_a_deadline_nothing_is_said_of_progress() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("Deployment", "web", replicas=1, progressDeadlineSeconds=2**31 - 1))
        deployment = await rolled_out(stage)
        await stage.advance(3600)
        assert [one["type"] for one in deployment["status"]["conditions"]] == ["Available"]

    play(scene, *CONTROLLERS)


def test_who_starts_anew_goes_on_where_the_last_one_stopped() -> None:
    """Controllers that come to a cluster in the middle of a rollout."""

    async def scene(stage: Embedded) -> None:
        await stage.create(workload("Deployment", "web", replicas=3))
        await rolled_out(stage)
        await set_image(stage, "app:2")
        await stage.rest()
        await stage.step()
        before = await stage.get("deployments", "web")
        assert before["status"]["updatedReplicas"] < 3
        await stage.restart()
        after = await rolled_out(stage)
        assert after["status"]["updatedReplicas"] == after["status"]["replicas"] == 3

    play(scene, *CONTROLLERS)


def test_a_replica_set_whose_creation_was_not_answered_is_no_collision() -> None:
    async def scene(stage: Embedded) -> None:
        controller = stage.controllers[0]
        cluster = controller.cluster
        lost: list[str] = []

        class Deaf:
            """The first ReplicaSet is created, but the answer is lost."""

            def __getattr__(self, verb: str) -> Any:
                return getattr(cluster, verb)

            async def create(self, resource: Any, body: Any, namespace: str = "") -> Any:
                made = await cluster.create(resource, body, namespace)
                if not lost:
                    lost.append(made.name)
                    raise Unreachable("the server", "cut in the middle")
                return made

        controller.cluster = Deaf()
        late = stage.context.cache.follow(REPLICA_SETS)  # nor is it heard of before it is looked for
        late.apply = lambda obj: None  # type: ignore[method-assign]
        await stage.create(workload("Deployment", "web", replicas=1))
        await stage.rest()
        (rs,) = await stage.all("replicasets")
        assert [rs["metadata"]["name"]] == lost
        assert "collisionCount" not in (await stage.get("deployments", "web"))["status"]

    play(scene, DeploymentController)
