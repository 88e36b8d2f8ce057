"""Disruption budgets: what their status says, and that evictions obey it."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.controllers.deployment import DeploymentController
from mooring.sandbox.controllers.disruption import DisruptionController
from mooring.sandbox.controllers.replica_set import ReplicaSetController
from tests.sandbox.controllers.kit import PODS, Embedded, Tree, play, template, workload

ALL = (DisruptionController, DeploymentController, ReplicaSetController)


def budget(app: str = "web", **spec: Any) -> Tree:
    selector = {"matchLabels": {"app": app}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb"},
        "spec": {"selector": selector, **spec},
    }


async def status(stage: Embedded) -> Tree:
    await stage.rest()
    found: Tree = (await stage.get("poddisruptionbudgets", "pdb"))["status"]
    return found


async def counts(stage: Embedded) -> tuple[int, int, int, int]:
    """Allowed, healthy, desired, expected."""
    found = await status(stage)
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    one, two, three, four = (found.get(name, 0) for name in names)
    return one, two, three, four


async def evict(stage: Embedded, name: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await stage.cluster.post(PODS, name, "eviction", body, stage.namespace)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 3}, (2, 5, 3, 5)),
        ({"minAvailable": 5}, (0, 5, 5, 5)),
        ({"minAvailable": "50%"}, (2, 5, 3, 5)),
        ({"maxUnavailable": 1}, (1, 5, 4, 5)),
        ({"maxUnavailable": "30%"}, (2, 5, 3, 5)),
        ({"maxUnavailable": "100%"}, (5, 5, 0, 5)),
    ],
)
def test_counts(spec: Tree, expected: tuple[int, int, int, int]) -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(budget(**spec))
        await stage.create(workload("Deployment", "web", replicas=5))
        await stage.rest()
        assert (await counts(stage))[:2] == (0, 0)  # none is ready yet
        await stage.run_pods()
        assert await counts(stage) == expected
        found = await status(stage)
        (condition,) = found["conditions"]
        allowed = expected[0] > 0
        assert (condition["type"], condition["status"]) == (
            "DisruptionAllowed",
            "True" if allowed else "False",
        )
        assert condition["reason"] == ("SufficientPods" if allowed else "InsufficientPods")
        assert found["observedGeneration"] == condition["observedGeneration"] == 1

    play(scene, *ALL)


def test_percentages_follow_the_scale_of_the_owners() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(budget(maxUnavailable="50%"))
        await stage.create(workload("Deployment", "web", replicas=4))
        lonely = workload("ReplicaSet", "lonely", replicas=2, template=template("web"))
        lonely["spec"]["selector"] = {"matchLabels": {"app": "web"}}
        await stage.rest()
        await stage.run_pods()
        assert await counts(stage) == (2, 4, 2, 4)
        await stage.patch("deployments", "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await stage.rest()
        assert (await counts(stage))[2:] == (2, 4)  # two ReplicaSets of one Deployment count once
        await stage.scale("deployments", "web", 8)
        await stage.rest()
        assert (await counts(stage))[2:] == (4, 8)

    play(scene, *ALL)


def test_evictions_use_the_budget_up_and_are_forgotten_when_seen() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(budget(minAvailable=2))
        await stage.create(workload("ReplicaSet", "web", replicas=3))
        await stage.rest()
        await stage.run_pods()
        names = [pod["metadata"]["name"] for pod in await stage.all("pods")]
        await evict(stage, names[0])
        with pytest.raises(ApiError, match="would violate"):
            await evict(stage, names[1])
        assert await counts(stage) == (0, 2, 2, 4)
        assert (await status(stage)).get("disruptedPods", {}) == {}  # it is seen to be on its way
        await stage.run_pods()
        await stage.run_pods()
        assert await counts(stage) == (1, 3, 2, 3)

    play(scene, *ALL)


def test_an_eviction_that_leads_to_nothing_is_given_up() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(budget(minAvailable=1))
        await stage.create(workload("ReplicaSet", "web", replicas=2))
        await stage.rest()
        await stage.run_pods()
        name = (await stage.all("pods"))[0]["metadata"]["name"]
        granted = {"disruptedPods": {name: "2030-01-01T00:00:01Z"}, "disruptionsAllowed": 0}
        await stage.patch("poddisruptionbudgets", "pdb", {"status": granted}, "status")
        assert await counts(stage) == (0, 1, 1, 2)
        await stage.advance(125)
        assert await counts(stage) == (1, 2, 1, 2)
        assert (await status(stage)).get("disruptedPods", {}) == {}
        (event,) = [event for event in await stage.events() if event.reason == "NotDeleted"]
        assert event.message == "Pod was expected by PDB default/default to be deleted but it wasn't"

    play(scene, *ALL)


def test_pods_without_owners_count_only_for_numbers() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(budget(maxUnavailable=1))
        pod = {"apiVersion": "v1", "kind": "Pod", **template("web")}
        await stage.create({**pod, "metadata": {"name": "p", "labels": {"app": "web"}}})
        await stage.run_pods()
        assert await counts(stage) == (0, 1, 0, 0)
        (event,) = [event for event in await stage.events() if event.reason == "UnmanagedPods"][:1]
        selector = (
            "&LabelSelector{MatchLabels:map[string]string{app: web,},"
            "MatchExpressions:[]LabelSelectorRequirement{},}"
        )
        assert f"(selector: {selector}) were found to be unmanaged." in event.message
        await stage.patch(
            "poddisruptionbudgets", "pdb", {"spec": {"maxUnavailable": None, "minAvailable": 1}}
        )
        assert await counts(stage) == (0, 1, 1, 1)

    play(scene, *ALL)


def test_owners_that_cannot_be_scaled_allow_nothing() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(budget(minAvailable="50%"))
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
        owner = await stage.create({**job, "spec": {"template": template("j", restartPolicy="Never")}})
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "j",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": "p", "labels": {"app": "web"}, "ownerReferences": [reference]}
        await stage.create({"apiVersion": "v1", "kind": "Pod", **template("web"), "metadata": metadata})
        await stage.run_pods()
        (condition,) = (await status(stage))["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "SyncFailed")
        assert condition["message"] == "jobs.batch does not implement the scale subresource"

    play(scene, *ALL)


def test_a_pod_that_was_spared_is_told_so() -> None:
    async def scene(stage: Embedded) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", **template("web"), "metadata": {"name": "p"}}
        await stage.create(pod)
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        await stage.patch("pods", "p", {"status": {"conditions": [target]}}, "status")
        await stage.advance(119)
        assert (await stage.get("pods", "p"))["status"]["conditions"][0]["status"] == "True"
        await stage.advance(2)
        (condition,) = (await stage.get("pods", "p"))["status"]["conditions"]
        assert condition["status"] == "False"
        assert "reason" not in condition

    play(scene, *ALL)
