"""StatefulSets: as kube-controller-manager has them, and what its recordings do not show."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from mooring.sandbox.controllers.stateful_set import StatefulSetController
from tests.sandbox.controllers.kit import Embedded, play, workload
from tests.sandbox.controllers.stateful_scenes import CLAIM, SCENES, play_scene

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("name", SCENES)
def test_as_kube_controller_manager(name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    assert play(partial(play_scene, name), StatefulSetController) == recorded


def test_a_pod_waits_until_the_claim_of_its_predecessor_is_gone() -> None:
    async def scene(stage: Embedded) -> None:
        policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
        spec = {"replicas": 1, "volumeClaimTemplates": [CLAIM]}
        await stage.create(
            workload("StatefulSet", "web", persistentVolumeClaimRetentionPolicy=policy, **spec)
        )
        await stage.rest()
        await stage.step()
        await stage.scale("statefulsets", "web", 0)
        await stage.rest()
        await stage.step()
        assert await stage.all("pods") == []
        await stage.scale("statefulsets", "web", 1)
        await stage.rest()
        assert await stage.all("pods") == []
        await stage.delete("persistentvolumeclaims", "data-web-0")
        for claim in await stage.all("persistentvolumeclaims"):
            patch = {"metadata": {"finalizers": None}}
            await stage.patch("persistentvolumeclaims", claim["metadata"]["name"], patch)
        await stage.rest()
        (pod,) = await stage.all("pods")
        (claim,) = await stage.all("persistentvolumeclaims")
        assert pod["metadata"]["name"] == "web-0"
        assert "deletionTimestamp" not in claim["metadata"]

    play(scene, StatefulSetController)


def test_a_set_comes_after_the_other_owners_of_a_claim() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("StatefulSet", "web", replicas=1, volumeClaimTemplates=[CLAIM]))
        await stage.rest()
        await stage.step()
        other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u"}
        patch = {"metadata": {"ownerReferences": [other]}}
        await stage.patch("persistentvolumeclaims", "data-web-0", patch)
        policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
        await stage.patch("statefulsets", "web", {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})
        await stage.rest()
        await stage.step()
        (claim,) = await stage.all("persistentvolumeclaims")
        assert [one["name"] for one in claim["metadata"]["ownerReferences"]] == ["other", "web"]

    play(scene, StatefulSetController)


def test_a_name_that_is_taken_is_told_and_waited_for() -> None:
    async def scene(stage: Embedded) -> None:
        taken = {"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "main", "image": "other"}]}}
        await stage.create({"apiVersion": "v1", "kind": "Pod", **taken})
        await stage.create(workload("StatefulSet", "web", replicas=1))
        await stage.rest()
        assert len(await stage.all("pods")) == 1
        await stage.delete("pods", "web-0", grace=0)
        await stage.advance(60)
        (pod,) = await stage.all("pods")
        assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-0"

    play(scene, StatefulSetController)


def test_a_set_that_is_being_deleted_is_left_alone() -> None:
    async def scene(stage: Embedded) -> None:
        made = workload("StatefulSet", "web", replicas=2)
        made["metadata"]["finalizers"] = ["example.com/held"]
        await stage.create(made)
        await stage.rest()
        await stage.delete("statefulsets", "web")
        await stage.delete("pods", "web-0", grace=0)
        await stage.rest()
        assert await stage.all("pods") == []

    play(scene, StatefulSetController)


def test_kubectl_rollout_restart_and_undo() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("StatefulSet", "web", replicas=2))
        await stage.rest()
        while await stage.step():
            pass
        restart = {"kubectl.kubernetes.io/restartedAt": "2030-01-01T00:00:00Z"}
        await stage.patch(
            "statefulsets", "web", {"spec": {"template": {"metadata": {"annotations": restart}}}}
        )
        await stage.rest()
        while await stage.step():
            pass
        assert [pod["metadata"]["annotations"] for pod in await stage.all("pods")] == [restart] * 2
        revisions = {one["revision"]: one for one in await stage.all("controllerrevisions")}
        await stage.patch("statefulsets", "web", revisions[1]["data"])
        await stage.rest()
        while await stage.step():
            pass
        assert not any(pod["metadata"].get("annotations") for pod in await stage.all("pods"))
        status = (await stage.get("statefulsets", "web"))["status"]
        assert status["currentRevision"] == status["updateRevision"] == revisions[1]["metadata"]["name"]
        assert sorted(one["revision"] for one in await stage.all("controllerrevisions")) == [2, 3]

    play(scene, StatefulSetController)


def test_whoever_takes_over_goes_on_with_a_rollout() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("StatefulSet", "web", replicas=3))
        await stage.rest()
        while await stage.step():
            await stage.restart()
        image = {"containers": [{"name": "main", "image": "app:2"}]}
        await stage.patch("statefulsets", "web", {"spec": {"template": {"spec": image}}})
        await stage.rest()
        steps = 0
        while await stage.step():
            await stage.restart()
            await stage.rest()
            steps += 1
        assert steps == 6  # each of three pods goes and comes, one after the other
        assert {pod["spec"]["containers"][0]["image"] for pod in await stage.all("pods")} == {"app:2"}
        assert len(await stage.all("controllerrevisions")) == 2

    play(scene, StatefulSetController)
