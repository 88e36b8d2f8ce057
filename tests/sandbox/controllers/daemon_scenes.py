"""Scenes of DaemonSets, played on kube-controller-manager for the recording and on ours."""

from __future__ import annotations

from typing import Any

from tests.sandbox.controllers.kit import Stage, Tree, template, workload
from tests.sandbox.controllers.set_journal import Journal

ROUNDS = 40


async def nodes(stage: Stage, count: int) -> None:
    """Nodes of this scene: they belong to no namespace."""
    for number in range(count):
        await node(stage, number)


async def node(stage: Stage, number: int, **spec: Any) -> None:
    metadata = {"name": f"{stage.namespace}-{number}", "labels": {"scene": stage.namespace}}
    await stage.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})


async def change_node(stage: Stage, number: int, patch: Tree) -> None:
    await stage.patch("nodes", f"{stage.namespace}-{number}", patch)


def target(pod: Tree) -> str:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    name: str = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return name


async def step(stage: Stage) -> bool:
    """The next thing that the scheduler or a kubelet has to do: first start pods, then let those go that are
    deleted."""
    pods = await stage.all("pods")
    for pod in sorted(pods, key=lambda pod: ("deletionTimestamp" in pod["metadata"], target(pod))):
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            await stage.delete("pods", name, grace=0)
        elif pod["status"].get("phase") == "Pending":
            await stage.bind(name, target(pod))
            await stage.set_ready(name)
        else:
            continue
        await stage.rest()
        return True
    return False


async def run(stage: Stage, journal: Journal, what: str) -> None:
    for number in range(ROUNDS):
        if not await step(stage):
            break
        await journal.note(f"{what}, step {number + 1}")


async def created(stage: Stage, journal: Journal, **spec: Any) -> None:
    spec.setdefault("template", template("web", nodeSelector={"scene": stage.namespace}))
    await stage.create(workload("DaemonSet", "web", **spec))
    await journal.note("created")
    await run(stage, journal, "created")


async def changed(stage: Stage, journal: Journal, what: str, spec: Tree) -> None:
    await stage.patch("daemonsets", "web", {"spec": spec})
    await journal.note(what)
    await run(stage, journal, what)


def image(name: str) -> Tree:
    return {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}


async def daemon_nodes(stage: Stage, journal: Journal) -> None:
    """Pods follow the nodes' labels and taints."""
    await nodes(stage, 2)
    await node(stage, 2, taints=[{"key": "gpu", "effect": "NoSchedule"}])
    await node(stage, 3, unschedulable=True)
    await created(stage, journal)
    await change_node(stage, 2, {"spec": {"taints": None}})
    await journal.note("tolerable")
    await run(stage, journal, "tolerable")
    await change_node(stage, 0, {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    await journal.note("tainted, but it may stay")
    await change_node(stage, 1, {"spec": {"taints": [{"key": "gpu", "effect": "NoExecute"}]}})
    await journal.note("tainted, and it must go")
    await run(stage, journal, "tainted, and it must go")
    await change_node(stage, 2, {"metadata": {"labels": {"scene": None}}})
    await journal.note("not selected")
    await run(stage, journal, "not selected")


async def daemon_rolling_update(stage: Stage, journal: Journal) -> None:
    await nodes(stage, 4)
    await created(stage, journal)
    await changed(stage, journal, "one by one", image("app:2"))
    rolling = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}}}
    await changed(stage, journal, "two by two", {**rolling, **image("app:3")})


async def daemon_surge(stage: Stage, journal: Journal) -> None:
    await nodes(stage, 3)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await created(stage, journal, updateStrategy=rolling)
    await changed(stage, journal, "updated", image("app:2"))


async def daemon_on_delete(stage: Stage, journal: Journal) -> None:
    await nodes(stage, 2)
    await created(stage, journal, updateStrategy={"type": "OnDelete"})
    await changed(stage, journal, "updated", image("app:2"))
    pod = (await stage.all("pods"))[0]
    await stage.delete("pods", pod["metadata"]["name"])
    await journal.note("deleted")
    await run(stage, journal, "deleted")


async def daemon_failures(stage: Stage, journal: Journal) -> None:
    """Pods that end are replaced, those that fail again and again after a pause."""
    await nodes(stage, 1)
    await created(stage, journal)
    for number, phase in enumerate(("Succeeded", "Failed", "Failed")):
        (pod,) = await stage.all("pods")
        await stage.end_pod(pod["metadata"]["name"], phase)
        await stage.advance(3)
        await journal.note(f"{phase} {number}")
        await run(stage, journal, f"{phase} {number}")


async def daemon_history(stage: Stage, journal: Journal) -> None:
    """Only so many revisions are kept; an old template becomes the latest revision again."""
    await nodes(stage, 1)
    await created(stage, journal, revisionHistoryLimit=1)
    for name in ("app:2", "app:3", "app:2", "app:4"):
        await changed(stage, journal, name, image(name))


SCENES = {
    scene.__name__: scene
    for scene in (
        daemon_nodes, daemon_rolling_update, daemon_surge, daemon_on_delete, daemon_failures, daemon_history,
    )
}  # fmt: skip


async def play_scene(name: str, stage: Stage) -> Tree:
    """What is to be seen of a scene, in a namespace of its own."""
    await stage.enter(name.replace("_", "-"))
    journal = Journal(stage, "daemonsets")
    await SCENES[name](stage, journal)
    return await journal.result()
