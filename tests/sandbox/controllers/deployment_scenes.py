"""Scenes of Deployments and ReplicaSets, played on kube-controller-manager for the recording and on ours."""

from __future__ import annotations

from typing import Any

from tests.sandbox.controllers.journal import Journal
from tests.sandbox.controllers.kit import Stage, Tree, template, workload

ROUNDS = 40


async def roll_out(stage: Stage, journal: Journal, what: str, ready: Any = lambda pod: True) -> None:
    """Let kubelets do all they have to do, thing by thing."""
    for number in range(ROUNDS):
        if not await stage.step(ready):
            break
        await journal.note(f"{what}, step {number + 1}")


async def set_image(stage: Stage, image: str) -> None:
    containers = [{"name": "main", "image": image}]
    await stage.patch("deployments", "web", {"spec": {"template": {"spec": {"containers": containers}}}})


async def deployed(stage: Stage, journal: Journal, **spec: Any) -> None:
    await stage.create(workload("Deployment", "web", **spec))
    await journal.note("created")
    await roll_out(stage, journal, "created")


async def rolling_update(stage: Stage, journal: Journal) -> None:
    await deployed(stage, journal, replicas=3)
    await set_image(stage, "app:2")
    await journal.note("updated")
    await roll_out(stage, journal, "updated")


async def surge_and_unavailable(stage: Stage, journal: Journal) -> None:
    limits = {"maxSurge": "50%", "maxUnavailable": 1}
    await deployed(stage, journal, replicas=5, strategy={"rollingUpdate": limits})
    await set_image(stage, "app:2")
    await journal.note("updated")
    await roll_out(stage, journal, "updated")


async def recreate(stage: Stage, journal: Journal) -> None:
    await deployed(stage, journal, replicas=2, strategy={"type": "Recreate"})
    await set_image(stage, "app:2")
    await journal.note("updated")
    await roll_out(stage, journal, "updated")


async def roll_over_and_back(stage: Stage, journal: Journal) -> None:
    """A rollout that hangs gives way to the next, and then to the first template again; history is short."""
    await deployed(stage, journal, replicas=3, revisionHistoryLimit=1)
    await set_image(stage, "app:2")
    await journal.note("updated")
    await roll_out(stage, journal, "hanging", lambda pod: False)
    await set_image(stage, "app:3")
    await journal.note("rolled over")
    await stage.step()
    await journal.note("rolled over, one ready")
    await set_image(stage, "app:1")
    await journal.note("back")
    await roll_out(stage, journal, "back")
    await set_image(stage, "app:4")
    await journal.note("forward")
    await roll_out(stage, journal, "forward")


async def scaling(stage: Stage, journal: Journal) -> None:
    """Scaled at rest, in the middle of a rollout (in proportion), to nothing, and up again."""
    limits = {"maxSurge": 3, "maxUnavailable": 2}
    await deployed(stage, journal, replicas=10, strategy={"rollingUpdate": limits})
    await stage.scale("deployments", "web", 8)
    await journal.note("8")
    await roll_out(stage, journal, "8")
    await set_image(stage, "app:2")
    await journal.note("updated")
    await stage.scale("deployments", "web", 16)
    await journal.note("16")
    await stage.scale("deployments", "web", 5)
    await journal.note("5")
    await stage.scale("deployments", "web", 0)
    await journal.note("0")
    await stage.scale("deployments", "web", 1)
    await journal.note("1")


async def paused(stage: Stage, journal: Journal) -> None:
    await deployed(stage, journal, replicas=2)
    await stage.patch("deployments", "web", {"spec": {"paused": True}})
    await journal.note("paused")
    await set_image(stage, "app:2")
    await journal.note("updated")
    await stage.scale("deployments", "web", 3)
    await journal.note("scaled")
    await roll_out(stage, journal, "scaled")
    await stage.patch("deployments", "web", {"spec": {"paused": False}})
    await journal.note("resumed")
    await roll_out(stage, journal, "resumed")


async def deadline(stage: Stage, journal: Journal) -> None:
    """A rollout that hangs for too long, and then gets on after all."""
    await deployed(stage, journal, replicas=1, progressDeadlineSeconds=3)
    await set_image(stage, "app:2")
    await journal.note("updated")
    await stage.step(lambda pod: False)
    await stage.advance(6)
    await journal.note("late")
    (waiting,) = [pod for pod in await stage.all("pods") if "app:2" in str(pod["spec"]["containers"])]
    await stage.set_ready(waiting["metadata"]["name"])
    await journal.note("ready after all")
    await roll_out(stage, journal, "ready after all")


async def min_ready_seconds(stage: Stage, journal: Journal) -> None:
    await stage.create(workload("Deployment", "web", replicas=1, minReadySeconds=4))
    await stage.rest()
    await stage.step()
    await journal.note("ready, not available")
    await stage.advance(5)
    await journal.note("available")


async def adoption(stage: Stage, journal: Journal) -> None:
    """Pods and ReplicaSets that nobody owns are adopted; those whose labels change are let go."""
    for mark in ("a", "b"):
        await stage.create(_marked_pod(mark))
    await stage.create(workload("ReplicaSet", "web", replicas=2))
    await journal.note("pods adopted")
    await roll_out(stage, journal, "pods adopted")
    await stage.create(workload("Deployment", "web", replicas=2))
    await journal.note("ReplicaSet without the label not adopted")
    await roll_out(stage, journal, "ReplicaSet without the label not adopted")
    await stage.patch("replicasets", "web", {"metadata": {"labels": {"app": "web"}}})
    await journal.note("ReplicaSet adopted")
    await roll_out(stage, journal, "ReplicaSet adopted")
    survivor = (await stage.all("pods"))[0]["metadata"]["name"]
    await stage.patch(
        "pods", survivor, {"metadata": {"labels": {"app": "other"}, "annotations": {"mark": "free"}}}
    )
    await journal.note("pod let go")
    await roll_out(stage, journal, "pod let go")


def _marked_pod(mark: str) -> Tree:
    made = template("web")
    metadata = {"name": f"pod-{mark}", **made["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}


async def deletion_order(stage: Stage, journal: Journal) -> None:
    """Of six pods the cheap ones and those not ready go first."""
    await stage.create(workload("ReplicaSet", "web", replicas=6))
    await stage.rest()
    pods = await stage.all("pods")
    costs = ("100", "-5", "20", "7", "-1", "")
    for pod, cost in zip(pods, costs, strict=True):
        name = pod["metadata"]["name"]
        annotations = {"mark": f"cost {cost}"}
        if cost:
            annotations["controller.kubernetes.io/pod-deletion-cost"] = cost
        await stage.patch("pods", name, {"metadata": {"annotations": annotations}})
        await stage.bind(name, "n0")
        await stage.set_ready(name, ready=cost != "100")
    await journal.note("as they are")
    for size in (5, 4, 3, 2, 1):
        await stage.scale("replicasets", "web", size)
        await journal.note(f"{size} left")


async def refused(stage: Stage, journal: Journal) -> None:
    """Pods that admission refuses, and then no longer does."""
    limit = {"type": "Container", "max": {"cpu": "1"}}
    await stage.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"},
                        "spec": {"limits": [limit]}})  # fmt: skip
    made = template("web")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    await stage.create(workload("Deployment", "web", replicas=2, template=made))
    await journal.note("refused")


SCENES = {
    scene.__name__: scene
    for scene in (
        rolling_update, surge_and_unavailable, recreate, roll_over_and_back, scaling, paused, deadline,
        min_ready_seconds, adoption, deletion_order, refused,
    )
}  # fmt: skip


async def play_scene(name: str, stage: Stage) -> Tree:
    """What is to be seen of a scene, in a namespace of its own."""
    await stage.enter(name.replace("_", "-"))
    journal = Journal(stage)
    await SCENES[name](stage, journal)
    return await journal.result()
