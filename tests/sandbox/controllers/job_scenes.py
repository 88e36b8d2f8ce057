"""Scenes of Jobs, played on kube-controller-manager for the recording and on ours."""

from __future__ import annotations

from typing import Any

from mooring.api.times import format_time
from tests.sandbox.controllers.kit import Stage, Tree, template
from tests.sandbox.controllers.set_journal import Journal

BATCH = 1.5  # seconds after which the controller has seen what pods do


async def created(stage: Stage, journal: Journal, restart: str = "Never", **spec: Any) -> None:
    made = template("web", restartPolicy=restart)
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}}
    await stage.create({**job, "spec": {"template": made, **spec}})
    await noted(stage, journal, "created")


async def noted(stage: Stage, journal: Journal, what: str) -> None:
    await stage.advance(BATCH)
    await journal.note(what)


async def changed(stage: Stage, journal: Journal, what: str, spec: Tree) -> None:
    await stage.patch("jobs", "web", {"spec": spec})
    await noted(stage, journal, what)


async def run(stage: Stage, journal: Journal) -> None:
    """All pods that wait run and are ready; those that are deleted go."""
    for pod in await stage.all("pods"):
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if "deletionTimestamp" in pod["metadata"]:
            await stage.delete("pods", name, grace=0)
        elif phase == "Pending":
            await stage.bind(name, "n0")
            await stage.set_ready(name)
    await noted(stage, journal, "run")


async def end(stage: Stage, journal: Journal, phase: str, count: int = 1, code: int = 0) -> None:
    """Some of the pods that run end, those of the lowest indexes first."""
    pods = [pod for pod in await stage.all("pods") if pod["status"].get("phase") == "Running"]
    for pod in sorted(pods, key=lambda pod: pod["spec"].get("hostname", ""))[:count]:
        ended = {"exitCode": code or int(phase == "Failed"), "finishedAt": format_time(stage.now())}
        status = {"name": "main", "image": "app:1", "imageID": "", "ready": False, "restartCount": 0}
        containers = [{**status, "state": {"terminated": ended}}]
        change = {"status": {"containerStatuses": containers}}
        await stage.patch("pods", pod["metadata"]["name"], change, "status")
        await stage.end_pod(pod["metadata"]["name"], phase)
    await noted(stage, journal, f"{count} {phase}")


async def job_completions(stage: Stage, journal: Journal) -> None:
    await created(stage, journal, completions=3, parallelism=2)
    await run(stage, journal)
    await end(stage, journal, "Succeeded")
    await run(stage, journal)
    await end(stage, journal, "Succeeded", 2)


async def job_work_queue(stage: Stage, journal: Journal) -> None:
    """Without a number of completions, one success lets the others finish and starts no more."""
    await created(stage, journal, parallelism=2)
    await run(stage, journal)
    await end(stage, journal, "Succeeded")
    await end(stage, journal, "Succeeded")


async def job_backoff(stage: Stage, journal: Journal) -> None:
    """The next pod comes ten seconds after the first failure; after the second there is none."""
    await created(stage, journal, backoffLimit=1)
    await run(stage, journal)
    await end(stage, journal, "Failed")
    await stage.advance(5)
    await noted(stage, journal, "within the pause")
    await stage.advance(7)
    await noted(stage, journal, "after the pause")
    await run(stage, journal)
    await end(stage, journal, "Failed")


async def job_deadline(stage: Stage, journal: Journal) -> None:
    """Pods that still run are deleted, and the Job has failed once they are gone."""
    await created(stage, journal, activeDeadlineSeconds=8, parallelism=2, completions=2)
    await run(stage, journal)
    await stage.advance(8)
    await noted(stage, journal, "late")
    await run(stage, journal)


async def job_indexes(stage: Stage, journal: Journal) -> None:
    await created(stage, journal, completions=4, parallelism=3, completionMode="Indexed")
    await run(stage, journal)
    await end(stage, journal, "Succeeded", 2)
    await run(stage, journal)
    await end(stage, journal, "Failed")
    await stage.advance(12)
    await noted(stage, journal, "after the pause")
    await run(stage, journal)
    await end(stage, journal, "Succeeded", 2)


async def job_suspended(stage: Stage, journal: Journal) -> None:
    await created(stage, journal, completions=2, parallelism=2, suspend=True)
    await changed(stage, journal, "resumed", {"suspend": False})
    await run(stage, journal)
    await changed(stage, journal, "suspended", {"suspend": True})
    await run(stage, journal)
    await changed(stage, journal, "resumed again", {"suspend": False})


async def job_parallelism(stage: Stage, journal: Journal) -> None:
    """Fewer pods at a time, and a pod that somebody deletes."""
    await created(stage, journal, completions=5, parallelism=3)
    await run(stage, journal)
    await changed(stage, journal, "1", {"parallelism": 1})
    await run(stage, journal)
    (pod,) = await stage.all("pods")
    await stage.delete("pods", pod["metadata"]["name"])
    await noted(stage, journal, "deleted")
    await stage.advance(12)
    await noted(stage, journal, "after the pause")
    await run(stage, journal)


async def job_failure_policy(stage: Stage, journal: Journal) -> None:
    """Some failures do not count, others are the end."""
    rules = [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [1]}},
    ]
    policy: Tree = {"podFailurePolicy": {"rules": rules}}
    await created(stage, journal, completions=2, parallelism=2, backoffLimit=0, **policy)
    await run(stage, journal)
    await end(stage, journal, "Failed", code=3)
    await stage.advance(12)
    await noted(stage, journal, "after the pause")
    await run(stage, journal)
    await end(stage, journal, "Failed", code=42)
    await run(stage, journal)


async def job_failed_indexes(stage: Stage, journal: Journal) -> None:
    """Each index has its own backoff limit; the Job fails once all have been tried."""
    indexed: Tree = {"completionMode": "Indexed", "backoffLimitPerIndex": 1}
    await created(stage, journal, completions=2, parallelism=2, **indexed)
    await run(stage, journal)
    await end(stage, journal, "Failed")
    await stage.advance(12)
    await noted(stage, journal, "after the pause")
    await run(stage, journal)
    await end(stage, journal, "Failed")
    await end(stage, journal, "Succeeded")


async def job_success_policy(stage: Stage, journal: Journal) -> None:
    """The leader's success is enough."""
    policy: Tree = {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
    await created(stage, journal, completions=2, parallelism=2, completionMode="Indexed", **policy)
    await run(stage, journal)
    await end(stage, journal, "Succeeded")
    await run(stage, journal)


async def job_restarts(stage: Stage, journal: Journal) -> None:
    """Where containers restart in their pod, restarts count."""
    await created(stage, journal, "OnFailure", backoffLimit=2)
    await run(stage, journal)
    (pod,) = await stage.all("pods")
    for restarts in (1, 2):
        status = {"name": "main", "image": "app:1", "imageID": "", "ready": False, "restartCount": restarts}
        change = {"status": {"containerStatuses": [status]}}
        await stage.patch("pods", pod["metadata"]["name"], change, "status")
        await noted(stage, journal, f"restart {restarts}")
    await run(stage, journal)


async def job_time_to_live(stage: Stage, journal: Journal) -> None:
    await created(stage, journal, ttlSecondsAfterFinished=6)
    await run(stage, journal)
    await end(stage, journal, "Succeeded")
    await stage.advance(7)
    await noted(stage, journal, "later")


SCENES = {
    scene.__name__: scene
    for scene in (
        job_completions, job_work_queue, job_backoff, job_deadline, job_indexes, job_suspended,
        job_parallelism, job_failure_policy, job_failed_indexes, job_success_policy, job_restarts,
        job_time_to_live,
    )
}  # fmt: skip


async def play_scene(name: str, stage: Stage) -> Tree:
    """What is to be seen of a scene, in a namespace of its own."""
    await stage.enter(name.replace("_", "-"))
    journal = Journal(stage, "jobs")
    await SCENES[name](stage, journal)
    return await journal.result()
