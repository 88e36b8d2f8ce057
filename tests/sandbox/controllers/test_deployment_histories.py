"""Whatever is done to a Deployment and its pods, in whatever order: in the end there is what it asks for."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.sandbox.controllers.deployment import DeploymentController
from mooring.sandbox.controllers.replica_set import ReplicaSetController
from tests.sandbox.controllers.deployment_scenes import set_image
from tests.sandbox.controllers.kit import Embedded, Tree, play, workload

HISTORY = 2

ACTS = st.one_of(
    st.tuples(st.just("image"), st.sampled_from(["app:1", "app:2", "app:3"])),
    st.tuples(st.just("scale"), st.integers(0, 5)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("kubelets"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["fail", "delete", "unready", "relabel"]), st.integers(0, 9)),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("advance"), st.sampled_from([1, 700])),
)


async def act(stage: Embedded, what: str, how: Any) -> None:
    if what == "image":
        await set_image(stage, how)
    elif what == "scale":
        await stage.scale("deployments", "web", how)
    elif what == "pause":
        await stage.patch("deployments", "web", {"spec": {"paused": how}})
    elif what == "kubelets":
        for _ in range(how):
            await stage.step()
    elif what == "restart":
        await stage.restart()
    elif what == "advance":
        await stage.advance(how)
    else:
        await befall(stage, what, how)


async def befall(stage: Embedded, what: str, which: int) -> None:
    """Something happens to one of the pods."""
    pods = await stage.all("pods", "app=web")
    if not pods:
        return
    name = pods[which % len(pods)]["metadata"]["name"]
    if what == "fail":
        await stage.end_pod(name, "Failed")
    elif what == "delete":
        await stage.delete("pods", name)
    elif what == "unready":
        await stage.set_ready(name, ready=False)
    else:
        await stage.patch("pods", name, {"metadata": {"labels": {"app": "else"}}})


def running(pods: list[Tree], owner: str) -> int:
    """How many pods of an owner count."""
    return sum(
        any(one["uid"] == owner for one in pod["metadata"].get("ownerReferences", []))
        and "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("phase") not in ("Failed", "Succeeded")
        for pod in pods
    )


async def check_counts(stage: Embedded) -> None:
    pods = await stage.all("pods")
    for rs in await stage.all("replicasets"):
        count = running(pods, rs["metadata"]["uid"])
        assert rs["status"].get("replicas", 0) == rs["spec"]["replicas"] == count


async def come_to_an_end(stage: Embedded) -> None:
    """Kubelets do all they have to do, and nobody is in their way."""
    await stage.patch("deployments", "web", {"spec": {"paused": False}})
    await stage.rest()
    for pod in await stage.all("pods", "app=web"):
        if pod["status"]["phase"] == "Running":
            await stage.set_ready(pod["metadata"]["name"])
    await stage.rest()
    for _ in range(100):
        if not await stage.step():
            return
    raise AssertionError("there is no end to it")


@settings(max_examples=25, deadline=None)
@given(st.lists(ACTS, max_size=12), st.sampled_from(["RollingUpdate", "Recreate"]))
def test_it_comes_out_right(acts: list[tuple[str, Any]], strategy: str) -> None:
    async def scene(stage: Embedded) -> None:
        spec = {"replicas": 2, "revisionHistoryLimit": HISTORY, "strategy": {"type": strategy}}
        await stage.create(workload("Deployment", "web", **spec))
        for what, how in acts:
            await act(stage, what, how)
            await stage.rest()
            await check_counts(stage)
        await come_to_an_end(stage)
        await check_counts(stage)
        deployment = await stage.get("deployments", "web")
        wanted, status = deployment["spec"]["replicas"], deployment["status"]
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        assert [status.get(count, 0) for count in counts] == [wanted] * 4
        assert status["observedGeneration"] == deployment["metadata"]["generation"]
        said = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
        assert said["Available"] == ("True", "MinimumReplicasAvailable")
        assert said["Progressing"] == ("True", "NewReplicaSetAvailable")
        images = {pod["spec"]["containers"][0]["image"] for pod in await stage.all("pods", "app=web")
                  if pod["status"]["phase"] == "Running"}  # fmt: skip
        assert images <= {deployment["spec"]["template"]["spec"]["containers"][0]["image"]}
        assert len(await stage.all("replicasets")) <= HISTORY + 1

    play(scene, DeploymentController, ReplicaSetController)
