"""An API that fails half of the writes, before or after it carried them out: nothing gets stuck or lost."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest

from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.apiserver.verbs.request import Answer
from mooring.sandbox.controllers.all_controllers import controllers
from tests.sandbox.controllers.kit import Embedded, resource, workload
from tests.sandbox.controllers.upkeep_scenes import budget, claim, live_on, node, volume

WRITES = ("create", "update", "patch", "delete")
NODES = ("n0", "n1", "n2", "n3")


class Flaky(EmbeddedCluster):
    """Fails writes at random while `failing`."""

    failing = False
    dice = random.Random()

    async def _ask(self, verb: str, *args: Any, **options: Any) -> Answer:
        roll = self.dice.random() if self.failing and verb in WRITES else 1.0
        if roll < 0.15:
            raise Unreachable("the test", "refused")
        if roll < 0.25:
            raise ApiError(500, "InternalError", "the test")
        if roll < 0.35 and verb in ("update", "patch"):
            raise ApiError(409, "Conflict", "the test")
        answer = await super()._ask(verb, *args, **options)
        if roll < 0.5:
            raise Unreachable("the test", "the answer was lost")
        return answer


async def begin(stage: Embedded) -> None:
    for name in NODES:
        await stage.create(node(name, stage.now()))
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
    await stage.create({**body, "provisioner": "disks.example.com"})
    await stage.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    await stage.create(workload("Deployment", "web", replicas=4))
    await stage.create(workload("Deployment", "web", replicas=4), "other")
    await stage.create(budget("web", "web", minAvailable="50%"))
    for number in range(4):
        await stage.create(volume(f"v{number}"))
        await stage.create(claim(f"static-{number}"))
        await stage.create(claim(f"made-{number}", storageClassName="fast"))


async def run_all_pods(stage: Embedded) -> None:
    for namespace in ("default", "other"):
        stage.namespace = namespace
        await stage.run_pods(*NODES)
    stage.namespace = "default"


async def scene(stage: Embedded, flaky: Flaky) -> None:
    flaky.failing = True
    await begin(stage)
    for _ in range(6):
        await live_on(stage, 20, *NODES)
        await run_all_pods(stage)
    status = (await stage.get("poddisruptionbudgets", "web"))["status"]
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (4, 2)
    claims = await stage.all("persistentvolumeclaims")
    assert [one["status"]["phase"] for one in claims] == ["Bound"] * 8

    await live_on(stage, 120, *NODES[1:])  # n0 falls silent
    taints = (await stage.get("nodes", "n0"))["spec"]["taints"]
    assert [taint["effect"] for taint in taints] == ["NoSchedule", "NoExecute"]
    await live_on(stage, 60, *NODES)
    assert not (await stage.get("nodes", "n0"))["spec"].get("taints")

    deployments = resource("deployments")
    await stage.cluster.delete(deployments, "web", "default", propagation_policy="Foreground")
    await stage.delete("namespaces", "other")
    for number in range(4):
        await stage.delete("persistentvolumeclaims", f"made-{number}")
    for _ in range(12):
        await live_on(stage, 20, *NODES)
        await run_all_pods(stage)
    left = {
        plural: len(await stage.all(plural))
        for plural in ("deployments", "replicasets", "pods", "persistentvolumeclaims", "persistentvolumes")
    }
    assert left == {
        "deployments": 0,
        "replicasets": 0,
        "pods": 0,
        "persistentvolumeclaims": 4,
        "persistentvolumes": 4,
    }
    assert "other" not in [one["metadata"]["name"] for one in await stage.all("namespaces")]


async def play_flaky(seed: int) -> None:
    loop = asyncio.get_running_loop()
    server = EmbeddedServer(clock=loop.time, seed=seed)
    server.open()
    flaky = Flaky(server.api)
    flaky.dice = random.Random(seed)
    recorder = CountingRecorder(server.cluster, now=lambda: int(loop.time() * 1e9))
    context = Context(flaky, Cache(flaky), recorder, loop.time)
    runs = [context.cache.run(), recorder.run(), *(one.run() for one in controllers(context))]
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        await context.cache.synced.wait()
        await scene(Embedded(server, ()), flaky)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop()


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_stuck_and_nothing_lost(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(play_flaky(seed))
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
