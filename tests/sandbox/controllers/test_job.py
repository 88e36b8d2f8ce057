"""Jobs: as kube-controller-manager has them, and what its recordings do not show."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.client.api_errors import Unreachable
from mooring.client.controller import Context
from mooring.sandbox.controllers import job as job_module
from mooring.sandbox.controllers.job import JobController, OrphanedJobPods
from mooring.sandbox.controllers.job_pods import FINALIZER
from mooring.sandbox.controllers.ttl_after_finished import TTLAfterFinishedController
from tests.sandbox.controllers.job_scenes import BATCH, SCENES, play_scene
from tests.sandbox.controllers.kit import Embedded, Tree, play, template

DATA = Path(__file__).parent / "data"
ALL = (JobController, OrphanedJobPods, TTLAfterFinishedController)


@pytest.mark.parametrize("name", SCENES)
def test_as_kube_controller_manager(name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    assert play(partial(play_scene, name), *ALL) == recorded


def job(**spec: Any) -> Tree:
    made = template("web", restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "web"},
        "spec": {"template": made, **spec},
    }


async def end_all(stage: Embedded, *phases: str) -> None:
    """Pods that wait end in these phases, the last for all others."""
    waiting = [pod for pod in await stage.all("pods") if pod["status"]["phase"] == "Pending"]
    for number, pod in enumerate(waiting):
        await stage.bind(pod["metadata"]["name"], "n0")
        await stage.end_pod(pod["metadata"]["name"], phases[min(number, len(phases) - 1)])
    await stage.advance(BATCH)


class Cut:
    """A cluster that is cut off once: the n-th patch is not carried out, or its answer does not arrive."""

    def __init__(self, cluster: Any, n: int, after: bool) -> None:
        self._cluster = cluster
        self._left = n
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def patch(self, *args: Any, **kwargs: Any) -> Any:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Unreachable("test", "cut")
        answer = await self._cluster.patch(*args, **kwargs)
        if self._left == 0:
            raise Unreachable("test", "cut")
        return answer


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("n", range(1, 12))
def test_every_pod_counts_once_whatever_is_cut(n: int, after: bool) -> None:
    def cut(context: Context) -> JobController:
        return JobController(msgspec.structs.replace(context, cluster=Cut(context.cluster, n, after)))

    async def scene(stage: Embedded) -> None:
        await stage.create(job(completions=4, parallelism=4))
        await stage.advance(BATCH)
        await end_all(stage, "Failed", "Succeeded")
        await stage.advance(15)
        await end_all(stage, "Succeeded")
        await stage.advance(5)
        status = (await stage.get("jobs", "web"))["status"]
        assert (status["succeeded"], status["failed"], status.get("active", 0)) == (4, 1, 0)
        assert [condition["type"] for condition in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        pods = await stage.all("pods")
        assert len(pods) == 5
        assert not any(pod["metadata"].get("finalizers") for pod in pods)

    play(scene, cut, OrphanedJobPods)


def test_only_so_many_pods_are_counted_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "MOST_UNCOUNTED", 3)

    async def scene(stage: Embedded) -> None:
        await stage.create(job(completions=10, parallelism=10))
        await stage.advance(BATCH)
        await end_all(stage, "Succeeded")
        assert (await stage.get("jobs", "web"))["status"]["succeeded"] == 3
        await stage.advance(10)
        status = (await stage.get("jobs", "web"))["status"]
        assert status["succeeded"] == 10
        assert status["uncountedTerminatedPods"] == {}
        assert status["conditions"][-1]["type"] == "Complete"

    play(scene, *ALL)


def test_pauses_double_up_to_ten_minutes_and_a_success_ends_them() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(job(backoffLimit=100, completions=2))
        await stage.advance(BATCH)
        created: list[float] = []
        failed = stage.now()
        for _ in range(9):
            await end_all(stage, "Failed")
            while not (await stage.get("jobs", "web"))["status"].get("active"):
                await stage.advance(1)
            created.append(stage.now() - failed)
            failed = stage.now()
        assert created == pytest.approx([10, 20, 40, 80, 160, 320, 600, 600, 600], abs=4)
        await end_all(stage, "Succeeded")
        await stage.advance(1)
        assert (await stage.get("jobs", "web"))["status"]["active"] == 1

    play(scene, *ALL)


def test_pods_of_a_job_that_is_gone_are_let_go() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(job(completions=2, parallelism=2))
        await stage.advance(BATCH)
        assert [pod["metadata"]["finalizers"] for pod in await stage.all("pods")] == [[FINALIZER]] * 2
        await stage.delete("jobs", "web")
        await stage.rest()
        assert not any(pod["metadata"].get("finalizers") for pod in await stage.all("pods"))

    play(scene, *ALL)


def test_a_job_that_another_controller_manages_is_left_alone() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(job(managedBy="example.com/queue"))
        await stage.advance(BATCH)
        assert await stage.all("pods") == []
        assert "startTime" not in (await stage.get("jobs", "web"))["status"]

    play(scene, *ALL)


def test_containers_find_their_index() -> None:
    async def scene(stage: Embedded) -> None:
        made = job(completions=1, completionMode="Indexed")
        containers = made["spec"]["template"]["spec"]["containers"]
        containers.append(
            {"name": "own", "image": "app:1", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]}
        )
        await stage.create(made)
        await stage.advance(BATCH)
        (pod,) = await stage.all("pods")
        assert pod["metadata"]["generateName"] == "web-0-"
        first, own = pod["spec"]["containers"]
        path = first["env"][0]["valueFrom"]["fieldRef"]["fieldPath"]
        assert path == "metadata.labels['batch.kubernetes.io/job-completion-index']"
        assert own["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]

    play(scene, *ALL)


def test_a_pod_that_is_refused_is_told_and_tried_again() -> None:
    async def scene(stage: Embedded) -> None:
        limit = {"type": "Container", "max": {"cpu": "1"}}
        small = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}}
        await stage.create({**small, "spec": {"limits": [limit]}})
        made = job(completions=1)
        resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
        await stage.create(made)
        await stage.advance(BATCH)
        assert (await stage.get("jobs", "web"))["status"].get("active", 0) == 0
        assert "FailedCreate" in [event.reason for event in await stage.events()]
        await stage.delete("limitranges", "small")
        await stage.advance(120)
        assert (await stage.get("jobs", "web"))["status"]["active"] == 1

    play(scene, *ALL)


def test_whoever_takes_over_counts_on() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(job(completions=3, parallelism=2))
        for _ in range(2):
            await stage.advance(BATCH)
            await stage.stop()
            await end_all(stage, "Succeeded")
            await stage.start()
        await stage.advance(BATCH)
        status = (await stage.get("jobs", "web"))["status"]
        assert status["succeeded"] == 3
        assert status["conditions"][-1]["type"] == "Complete"
        assert len(await stage.all("pods")) == 3

    play(scene, *ALL)


@pytest.mark.parametrize("indexed", [False, True])
def test_only_so_many_pods_are_created_at_a_time(indexed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt would be to make two billion of them."""
    monkeypatch.setattr(job_module, "BURST", 3)
    largest = 2**31 - 1
    spec: Tree = {"parallelism": largest, "completions": largest}
    if indexed:
        spec |= {"parallelism": 100_000, "completionMode": "Indexed"}
        rule = {"succeededIndexes": f"0-{largest - 2}", "succeededCount": 10}
        spec["successPolicy"] = {"rules": [rule]}

    async def scene(stage: Embedded) -> None:
        await stage.create(job(**spec))
        await stage.advance(BATCH / 2)
        assert len(await stage.all("pods")) == 3
        await stage.advance(BATCH)
        assert len(await stage.all("pods")) in (6, 9)

    play(scene, *ALL)
