"""Scenes of StatefulSets, played on kube-controller-manager for the recording and on ours."""

from __future__ import annotations

from typing import Any

from tests.sandbox.controllers.kit import Stage, Tree, template, workload
from tests.sandbox.controllers.set_journal import Journal

ROUNDS = 40
CLAIM: Tree = {
    "metadata": {"name": "data", "labels": {"tier": "gold"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def step(stage: Stage) -> bool:
    """The next thing that the scheduler or a kubelet has to do, and then rest: first start pods, then let
    those go that are deleted."""
    pods = await stage.all("pods")
    for pod in sorted(
        pods, key=lambda pod: ("deletionTimestamp" in pod["metadata"], pod["metadata"]["name"])
    ):
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            await stage.delete("pods", name, grace=0)
        elif pod["status"].get("phase") == "Pending":
            if not pod["spec"].get("nodeName"):
                await stage.bind(name, "n0")
            await stage.set_ready(name)
        else:
            continue
        await stage.rest()
        return True
    return False


async def run(stage: Stage, journal: Journal, what: str) -> None:
    """Let kubelets do all they have to do, thing by thing."""
    for number in range(ROUNDS):
        if not await step(stage):
            break
        await journal.note(f"{what}, step {number + 1}")


async def created(stage: Stage, journal: Journal, **spec: Any) -> None:
    spec.setdefault("serviceName", "peers")
    await stage.create(workload("StatefulSet", "web", **spec))
    await journal.note("created")
    await run(stage, journal, "created")


async def changed(stage: Stage, journal: Journal, what: str, spec: Tree) -> None:
    await stage.patch("statefulsets", "web", {"spec": spec})
    await journal.note(what)
    await run(stage, journal, what)


def image(name: str) -> Tree:
    return {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}


async def stateful_in_order(stage: Stage, journal: Journal) -> None:
    """One pod after the other, each with its claim; and back again, the claims stay."""
    await created(stage, journal, replicas=3, volumeClaimTemplates=[CLAIM])
    await changed(stage, journal, "1", {"replicas": 1})
    await changed(stage, journal, "2", {"replicas": 2})


async def stateful_in_parallel(stage: Stage, journal: Journal) -> None:
    await created(stage, journal, replicas=3, podManagementPolicy="Parallel")
    await changed(stage, journal, "updated", image("app:2"))
    await changed(stage, journal, "0", {"replicas": 0})


async def stateful_partition(stage: Stage, journal: Journal) -> None:
    """A rolling update that stops at a partition, and then goes on; a pod below it comes back as it was."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await created(stage, journal, replicas=3, updateStrategy=rolling)
    await changed(stage, journal, "updated", image("app:2"))
    await stage.delete("pods", "web-0")
    await journal.note("deleted")
    await run(stage, journal, "deleted")
    await changed(stage, journal, "on", {"updateStrategy": {"rollingUpdate": {"partition": 0}}})


async def stateful_on_delete(stage: Stage, journal: Journal) -> None:
    await created(stage, journal, replicas=2, updateStrategy={"type": "OnDelete"})
    await changed(stage, journal, "updated", image("app:2"))
    await stage.delete("pods", "web-0")
    await journal.note("deleted")
    await run(stage, journal, "deleted")


async def stateful_failures(stage: Stage, journal: Journal) -> None:
    """Pods that end are replaced, and those after them wait."""
    await created(stage, journal, replicas=2)
    for name, phase in (("web-0", "Failed"), ("web-1", "Succeeded")):
        await stage.end_pod(name, phase)
        await journal.note(f"{name} {phase}")
        await run(stage, journal, f"{name} {phase}")
    await stage.set_ready("web-0", False)
    await journal.note("not ready")
    await stage.scale("statefulsets", "web", 3)
    await journal.note("3, but not yet")
    await stage.set_ready("web-0")
    await journal.note("ready")
    await run(stage, journal, "ready")


async def stateful_retention(stage: Stage, journal: Journal) -> None:
    """Claims belong to the set, and those of pods that are scaled away to the pod: with it they go."""
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    spec = {"replicas": 2, "volumeClaimTemplates": [CLAIM]}
    await created(stage, journal, persistentVolumeClaimRetentionPolicy=policy, **spec)
    await stage.scale("statefulsets", "web", 1)
    await journal.note("1")
    kept = {"whenScaled": "Retain", "whenDeleted": "Retain"}
    await stage.patch("statefulsets", "web", {"spec": {"persistentVolumeClaimRetentionPolicy": kept}})
    await journal.note("retained")


async def stateful_history(stage: Stage, journal: Journal) -> None:
    """Only so many revisions are kept; an old template becomes the latest revision again."""
    await created(stage, journal, replicas=1, revisionHistoryLimit=1)
    for name in ("app:2", "app:3", "app:2", "app:4"):
        await changed(stage, journal, name, image(name))


async def stateful_ordinals(stage: Stage, journal: Journal) -> None:
    """Names may begin with another number than 0; a pod is available only after a while."""
    spec = {"ordinals": {"start": 5}, "minReadySeconds": 4}
    await stage.create(workload("StatefulSet", "web", replicas=2, **spec))
    await stage.rest()
    await step(stage)
    await journal.note("ready")
    await stage.advance(5)
    await journal.note("available")


async def stateful_adoption(stage: Stage, journal: Journal) -> None:
    """A pod with the right name and labels is adopted and told who it is; another is not."""
    for name in ("web-0", "stray"):
        made = template("web")
        metadata = {"name": name, **made["metadata"]}
        await stage.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]})
    await step(stage)
    await created(stage, journal, replicas=1, updateStrategy={"type": "OnDelete"})
    await stage.patch("pods", "web-0", {"metadata": {"labels": {"app": "other"}}})
    await journal.note("let go")


SCENES = {
    scene.__name__: scene
    for scene in (
        stateful_in_order, stateful_in_parallel, stateful_partition, stateful_on_delete, stateful_failures,
        stateful_retention, stateful_history, stateful_ordinals, stateful_adoption,
    )
}  # fmt: skip


async def play_scene(name: str, stage: Stage) -> Tree:
    """What is to be seen of a scene, in a namespace of its own."""
    await stage.enter(name.replace("_", "-"))
    journal = Journal(stage, "statefulsets")
    await SCENES[name](stage, journal)
    return await journal.result()
