"""kubectl rollout, of the real kubectl, on the embedded API with our controllers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.sandbox.controllers.deployment import DeploymentController
from mooring.sandbox.controllers.replica_set import ReplicaSetController
from tests.sandbox.apiserver.kit import Running, running
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl
from tests.sandbox.controllers.kit import Kubelets, workload

pytestmark = needs_kubectl

DONE = 'deployment "web" successfully rolled out'
IMAGE = "jsonpath={.spec.template.spec.containers[0].image}"


@contextmanager
def controllers(server: Running) -> Iterator[None]:
    """Controllers and kubelets on the server's own event loop."""

    async def start() -> list[asyncio.Task[None]]:
        cluster = server.server.cluster
        recorder = CountingRecorder(cluster)
        context = Context(cluster, Cache(cluster), recorder, time.time)
        running = [kind(context) for kind in (DeploymentController, ReplicaSetController, Kubelets)]
        runs = [context.cache.run(), recorder.run(), *(one.run() for one in running)]
        return [asyncio.create_task(run) for run in runs]

    async def stop(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    tasks = asyncio.run_coroutine_threadsafe(start(), server.loop).result(30)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(stop(tasks), server.loop).result(30)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with running() as server, controllers(server):
        yield Kubectl(Path(server.server.kubeconfig), tmp_path_factory.mktemp("home"))


def roll_out(kubectl: Kubectl) -> None:
    assert DONE in kubectl("rollout", "status", "deployment/web", "--timeout=30s")


def test_a_deployment_from_creation_to_its_history(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=app:1", "--replicas=3")
    roll_out(kubectl)
    kubectl("annotate", "deployment/web", "kubernetes.io/change-cause=the beginning")
    kubectl("set", "image", "deployment/web", "app=app:2")
    kubectl("annotate", "deployment/web", "kubernetes.io/change-cause=version two", "--overwrite")
    roll_out(kubectl)
    assert kubectl("get", "deployment", "web", "--no-headers").split()[:4] == ["web", "3/3", "3", "3"]

    history = kubectl("rollout", "history", "deployment/web")
    assert [line.split(maxsplit=1) for line in history.splitlines() if line[:1].isdigit()] == [
        ["1", "the beginning"],
        ["2", "version two"],
    ]
    assert "app:1" in kubectl("rollout", "history", "deployment/web", "--revision=1")

    assert "rolled back" in kubectl("rollout", "undo", "deployment/web")
    roll_out(kubectl)
    assert kubectl("get", "deployment", "web", "-o", IMAGE) == "app:1"
    kubectl("rollout", "undo", "deployment/web", "--to-revision=2")
    roll_out(kubectl)
    assert kubectl("get", "deployment", "web", "-o", IMAGE) == "app:2"

    assert "restarted" in kubectl("rollout", "restart", "deployment/web")
    roll_out(kubectl)
    revisions = [
        line.split()[0] for line in kubectl("rollout", "history", "deployment/web").splitlines()[2:] if line
    ]
    assert revisions == ["3", "4", "5"]
    pods = json.loads(kubectl("get", "pods", "-o", "json", "--field-selector=status.phase=Running"))["items"]
    assert all("kubectl.kubernetes.io/restartedAt" in pod["metadata"]["annotations"] for pod in pods)

    told = kubectl("describe", "deployment", "web")
    assert "ScalingReplicaSet" in told
    assert "deployment-controller" in told
    assert "Scaled up replica set" in told


def test_a_deployment_that_is_paused(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "resting", "--image=app:1", "--replicas=1")
    kubectl("rollout", "status", "deployment/resting", "--timeout=30s")
    kubectl("rollout", "pause", "deployment/resting")
    kubectl("set", "image", "deployment/resting", "app=app:2")
    kubectl("wait", "deployment/resting", "--for=condition=Progressing=Unknown", "--timeout=30s")
    assert len(json.loads(kubectl("get", "rs", "-l", "app=resting", "-o", "json"))["items"]) == 1
    kubectl("rollout", "resume", "deployment/resting")
    kubectl("rollout", "status", "deployment/resting", "--timeout=30s")
    assert len(json.loads(kubectl("get", "rs", "-l", "app=resting", "-o", "json"))["items"]) == 2


def test_a_rollout_that_does_not_get_on(kubectl: Kubectl) -> None:
    body = workload("Deployment", "stuck", replicas=1, progressDeadlineSeconds=1)
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "broken"
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    said = kubectl("rollout", "status", "deployment/stuck", "--timeout=30s", code=1)
    assert 'error: deployment "stuck" exceeded its progress deadline' in said
